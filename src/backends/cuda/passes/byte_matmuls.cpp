#include "backends/cuda/passes/byte_matmuls.h"

#include <algorithm>

#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

/// Fewer multiplications are not worth the library.
constexpr int64_t kFewest = 1 << 15;

int64_t Product(const Shape& shape, const Dims& dims) {
  int64_t product = 1;
  for (int i = 0; i < dims.size(); ++i) product *= shape.size(static_cast<int>(dims[i]));
  return product;
}

bool IsOfUnsignedBytes(const Graph& graph, const GraphNode& node) {
  return node.op == &ops::kDotGeneralFused && node.type().dtype() == DType::kI32 &&
         graph.TypeOf(node.inputs[0]).dtype() == DType::kU8;
}

/// [columns] as the last dim of `sizes`.
GraphValue OfColumns(GraphBuilder& out, GraphValue values, const Dims& sizes) {
  Dims single = Dims::Filled(sizes.size(), 1);
  single[sizes.size() - 1] = sizes.back();
  return out.Broadcast(out.Reshape(values, single), sizes);
}

GraphValue Number(GraphBuilder& out, int value, DType dtype, const Dims& sizes) {
  return out.Broadcast(out.Constant(Scalar(value), dtype), sizes);
}

Replacement Signed(GraphEditor& out, const GraphNode& node) {
  if (!IsOfUnsignedBytes(out.graph(), node)) return std::nullopt;
  const Dims sizes = out.SizesOf(node.inputs[0]), result = node.type().sizes();
  GraphNode made = node;
  GraphValue flipped =
      out.Add(ops::kBitwiseXor, {node.inputs[0], Number(out, 0x80, DType::kU8, sizes)});
  made.inputs.Set(0, out.Add(ops::kBitcast, {flipped}, {Attr(DType::kI8)}));
  const GraphValue wide = out.Cast(node.inputs[1], DType::kI32);
  const GraphValue sums = out.Add(ops::kReduceSum, {wide}, {node.attrs[1], Attr(false)});
  const GraphValue scaled =
      out.Add(ops::kMul, {sums, Number(out, 128, DType::kI32, out.SizesOf(sums))});
  const GraphValue matmul = out.Append(std::move(made));
  return {{out.Add(ops::kAdd, {matmul, OfColumns(out, scaled, result)})}};
}

}  // namespace

bool MultipliesBytes(const Graph& graph, const GraphNode& node) {
  const Shape &a = graph.TypeOf(node.inputs[0]), &b = graph.TypeOf(node.inputs[1]);
  const Dims contract = node.attrs[1].ints(), batch = node.attrs[3].ints();
  if (node.type().dtype() != DType::kI32 || a.numel() == 0 || b.numel() == 0) return false;
  if (a.dtype() == DType::kU8 && (b.rank() != 2 || contract.size() != 1 || batch.size() > 0)) {
    return false;
  }
  const int64_t k = Product(b, contract), n = b.numel() / k / Product(b, batch);
  return k % 4 == 0 && n % 4 == 0 && node.type().numel() * k > kFewest;
}

Graph SignByteMatMuls(Graph graph) {
  if (std::ranges::none_of(graph.nodes(),
                           [&](const GraphNode& n) { return IsOfUnsignedBytes(graph, n); })) {
    return graph;
  }
  return EditGraph(std::move(graph), [](GraphEditor& editor, NodeId, const GraphNode& node) {
    return Signed(editor, node);
  });
}

}  // namespace hammock::cuda
