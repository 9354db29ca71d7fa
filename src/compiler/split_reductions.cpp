#include "compiler/split_reductions.h"

#include <algorithm>

#include "compiler/bodies.h"
#include "ops/primitives.h"

namespace hammock {
namespace {

constexpr int64_t kMaxExtent = 65536;  // that stays whole
constexpr int64_t kBlock = 8192;       // of what does not
constexpr int64_t kMinBlock = 1024;

bool IsReduction(const OpDef& op) {
  return &op == &ops::kReduceSum || &op == &ops::kReduceProd || &op == &ops::kReduceMax ||
         &op == &ops::kReduceMin || &op == &ops::kReduceAny || &op == &ops::kReduceAll;
}

bool Accumulates(const OpDef& op) { return &op == &ops::kReduceSum || &op == &ops::kReduceProd; }

/// The longest block that `extent` is a multiple of; 0 where none is long enough.
int64_t EvenBlock(int64_t extent) {
  for (int64_t blocks = (extent + kBlock - 1) / kBlock; extent / blocks >= kMinBlock; ++blocks) {
    if (extent % blocks == 0) return extent / blocks;
  }
  return 0;
}

/// Writes what replaces one reduction.
class Writer {
 public:
  Writer(Graph& out, const GraphNode& node) : out_(out), node_(node) {}

  GraphValue Replace(GraphValue value) {
    if (out_.TypeOf(value).numel() == 0) return Identity();
    DType dtype = out_.TypeOf(value).dtype(), wide = WideFor(out_.TypeOf(value));
    if (wide != dtype) value = Add(ops::kCast, {value}, {Attr(wide)});
    value = ReduceGroups(value);
    if (wide != dtype) value = Add(ops::kCast, {value}, {Attr(dtype)});
    return Reshape(value, node_.type().sizes());
  }

 private:
  /// What sums are made in: f32 for 16-bit floats, f64 for sums of very many numbers.
  DType WideFor(const Shape& from) const {
    DType dtype = from.dtype();
    if (!Accumulates(*node_.op)) return dtype;
    if (dtype == DType::kF16 || dtype == DType::kBF16) return DType::kF32;
    bool many = from.numel() / node_.type().numel() > kMaxExtent;
    return many && dtype == DType::kF32 && node_.op == &ops::kReduceSum ? DType::kF64 : dtype;
  }

  GraphValue Add(const OpDef& op, std::vector<GraphValue> inputs, std::vector<Attr> attrs) {
    NodeId id = out_.AddNode(op, std::move(inputs), std::move(attrs), node_.location);
    out_.mutable_node(id).origin = node_.origin;
    return {id, 0};
  }

  GraphValue Reshape(GraphValue value, const Dims& sizes) {
    if (out_.TypeOf(value).sizes() == sizes) return value;
    return Add(ops::kReshape, {value}, {Attr(sizes)});
  }

  GraphValue Slice(GraphValue value, int dim, int64_t start, int64_t size) {
    return Add(ops::kSlice, {value},
               {Attr(int64_t{dim}), Attr(start), Attr(size), Attr(int64_t{1})});
  }

  /// What a reduction of nothing is.
  GraphValue Identity() {
    bool one = node_.op == &ops::kReduceProd || node_.op == &ops::kReduceAll;
    DType dtype = node_.type().dtype();
    GraphValue value = Add(ops::kConstant, {}, {Attr(Scalar(int64_t{one})), Attr(dtype)});
    if (node_.type().sizes().empty()) return value;
    return Add(ops::kBroadcast, {value}, {Attr(node_.type().sizes())});
  }

  GraphValue ReduceGroups(GraphValue value) {
    const Dims sizes = out_.TypeOf(value).sizes();
    auto reduced = node_.attrs[0].ints();
    Dims merged;
    std::vector<int> groups;  // dims of `merged` that are reduced
    for (int d = 0; d < sizes.size(); ++d) {
      bool here = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
      bool extends =
          here && d > 0 && std::find(reduced.begin(), reduced.end(), d - 1) != reduced.end();
      if (extends) {
        merged[merged.size() - 1] *= sizes[d];
      } else {
        merged.push_back(sizes[d]);
        if (here) groups.push_back(merged.size() - 1);
      }
    }
    value = Reshape(value, merged);
    for (size_t i = groups.size(); i-- > 0;) value = ReduceDim(value, groups[i]);
    return value;
  }

  /// Without the dim.
  GraphValue ReduceDim(GraphValue value, int dim) {
    while (out_.TypeOf(value).size(dim) > kMaxExtent) value = ReduceBlocks(value, dim);
    return Add(*node_.op, {value}, {Attr(Dims{dim}), Attr(false)});
  }

  /// The dim counts blocks afterwards.
  GraphValue ReduceBlocks(GraphValue value, int dim) {
    int64_t extent = out_.TypeOf(value).size(dim);
    int64_t block = EvenBlock(extent);
    if (block != 0) return ReduceEvenBlocks(value, dim, block);
    int64_t whole = extent / kBlock * kBlock;
    GraphValue blocks = ReduceEvenBlocks(Slice(value, dim, 0, whole), dim, kBlock);
    GraphValue rest =
        ReduceEvenBlocks(Slice(value, dim, whole, extent - whole), dim, extent - whole);
    return Add(ops::kConcat, {blocks, rest}, {Attr(int64_t{dim})});
  }

  GraphValue ReduceEvenBlocks(GraphValue value, int dim, int64_t block) {
    Dims sizes = out_.TypeOf(value).sizes();
    Dims counted = sizes;
    counted[dim] /= block;
    // Eight dims are the most that there can be, so those before and after become one each.
    int64_t before = 1;
    int64_t after = 1;
    for (int d = 0; d < dim; ++d) before *= sizes[d];
    for (int d = dim + 1; d < sizes.size(); ++d) after *= sizes[d];
    value = Reshape(value, Dims{before, counted[dim], block, after});
    value = Add(*node_.op, {value}, {Attr(Dims{2}), Attr(false)});
    return Reshape(value, counted);
  }

  Graph& out_;
  const GraphNode& node_;
};

}  // namespace

Graph SplitReductions(Graph graph) {
  Graph out;
  std::vector<NodeId> map(static_cast<size_t>(graph.size()), -1);
  std::vector<int32_t> first(static_cast<size_t>(graph.size()));  // of a node's results in `map`
  auto mapped = [&](GraphValue value) {
    if (value.node < 0) return value;
    size_t node = static_cast<size_t>(value.node);
    return GraphValue{map[node], first[node] + value.index};
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    GraphNode node = std::move(graph.mutable_node(id));
    if (IsReduction(*node.op)) {
      // Nothing is reduced over no dims: then it is the operand itself.
      GraphValue value = Writer(out, node).Replace(mapped(node.inputs[0]));
      map[static_cast<size_t>(id)] = value.node;
      first[static_cast<size_t>(id)] = value.index;
      continue;
    }
    for (GraphValue& input : node.inputs) input = mapped(input);
    map[static_cast<size_t>(id)] = out.Append(std::move(node));
  }
  for (GraphValue output : graph.outputs()) out.AddOutput(mapped(output));
  MapBodies(out, SplitReductions);
  return out;
}

}  // namespace hammock
