#include "backends/cuda/passes/vector_matmuls.h"

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/facts/fusion_facts.h"
#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

/// An operand, and the indices of its dims by role.
struct Operand {
  Operand(const GraphBuilder& out, const GraphNode& matmul, int index)
      : value(matmul.inputs[index]),
        sizes(out.SizesOf(value)),
        contract(matmul.attrs[index].ints()),
        batch(matmul.attrs[2 + index].ints()) {
    for (int64_t d = 0; d < sizes.size(); ++d) {
      bool bound = std::ranges::count(contract, d) + std::ranges::count(batch, d) > 0;
      if (!bound) free.push_back(d);
    }
  }
  /// Whether it has no dims of its own, or such of one element.
  bool is_vector() const {
    return std::ranges::all_of(free, [&](int64_t d) { return sizes[static_cast<int>(d)] == 1; });
  }

  GraphValue value;
  const Dims sizes;
  const std::vector<int64_t> contract, batch;
  std::vector<int64_t> free;
};

bool AreNeighbours(std::vector<int64_t> dims) {
  std::ranges::sort(dims);
  return !dims.empty() && dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size());
}

GraphValue Permuted(GraphBuilder& out, GraphValue value, const std::vector<int64_t>& dims) {
  return std::ranges::is_sorted(dims) ? value : out.Add(ops::kPermute, {value}, {Attr(Dims(dims))});
}

/// The vector with the dims of the matrix, repeated along those that only the matrix has.
GraphValue Spread(GraphBuilder& out, const Operand& vector, const Operand& matrix) {
  std::vector<int64_t> order = vector.free;  // all of one element
  Dims sizes = matrix.sizes;
  for (int64_t d = 0; d < matrix.sizes.size(); ++d) {
    auto take = [&](const std::vector<int64_t>& of_matrix, const std::vector<int64_t>& own) {
      auto at = std::ranges::find(of_matrix, d) - of_matrix.begin();
      if (at == static_cast<ptrdiff_t>(of_matrix.size())) return false;
      order.push_back(own[at]);
      return true;
    };
    if (!take(matrix.batch, vector.batch) && !take(matrix.contract, vector.contract)) {
      sizes[static_cast<int>(d)] = 1;
    }
  }
  return out.Broadcast(out.Reshape(Permuted(out, vector.value, order), sizes), matrix.sizes);
}

/// The sums over the dims of the matrix that are contracted, in the order of its other dims, as a
/// matmul has them: batch dims first.
GraphValue SumOf(GraphBuilder& out, GraphValue products, const Operand& matrix) {
  GraphValue sums =
      out.Add(ops::kReduceSum, {products}, {Attr(Dims(matrix.contract)), Attr(false)});
  std::vector<int64_t> order;
  for (const std::vector<int64_t>* dims : {&matrix.batch, &matrix.free}) {
    for (int64_t d : *dims) {
      order.push_back(d - std::ranges::count_if(matrix.contract, [&](int64_t c) { return c < d; }));
    }
  }
  return Permuted(out, sums, order);
}

bool IsPlainMatMul(const GraphNode& node) {
  if (node.op == &ops::kDotGeneral) return true;
  return node.op == &ops::kDotGeneralFused && !node.inputs[2].node && !node.attr("relu").boolean();
}

/// Vectors in memory, by the value.
using Stored = std::map<GraphValue, GraphValue>;

/// The vector in memory: products would compute each element again for each row of the matrix.
GraphValue StoredOnce(GraphBuilder& out, GraphValue vector, Stored& stored) {
  if (!compiler::IsPointwise(out.graph(), out.graph()[vector.node])) return vector;
  auto [known, added] = stored.try_emplace(vector);
  if (added) known->second = out.Add(ops::kBarrier, {vector, vector});
  return known->second;
}

Replacement AsProducts(GraphEditor& out, const GraphNode& node, Stored& stored) {
  if (!IsPlainMatMul(node) || node.type().numel() == 0) return std::nullopt;
  const DType dtype = out.TypeOf(node.inputs[0]).dtype();
  if (!IsFloat(dtype)) return std::nullopt;
  const Operand a(out, node, 0), b(out, node, 1);
  if (!a.is_vector() && !b.is_vector()) return std::nullopt;
  Operand vector = a.is_vector() ? a : b;
  const Operand& matrix = a.is_vector() ? b : a;
  if (!AreNeighbours(matrix.contract) || out.TypeOf(vector.value).numel() == 0) return std::nullopt;
  vector.value = StoredOnce(out, vector.value, stored);
  const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  GraphValue products = out.Add(
      ops::kMul, {out.Cast(Spread(out, vector, matrix), wide), out.Cast(matrix.value, wide)});
  GraphValue sums = out.Cast(SumOf(out, products, matrix), node.type().dtype());
  return {{out.Reshape(sums, node.type().sizes())}};
}

}  // namespace

Graph VectorMatMuls(Graph graph) {
  if (std::ranges::none_of(graph.nodes(), IsPlainMatMul)) return graph;
  Stored stored;
  return EditGraph(std::move(graph), [&](GraphEditor& editor, NodeId, const GraphNode& node) {
    return AsProducts(editor, node, stored);
  });
}

}  // namespace hammock::cuda
