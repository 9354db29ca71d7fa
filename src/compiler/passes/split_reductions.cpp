#include "compiler/passes/split_reductions.h"

#include <algorithm>

#include "compiler/facts/fusion_facts.h"
#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"

namespace hammock {
namespace {

constexpr int64_t kMaxExtent = 65536;  // that stays whole
constexpr int64_t kBlock = 8192;       // of what does not
constexpr int64_t kMinBlock = 1024;

bool Accumulates(const OpDef& op) { return &op == &ops::kReduceSum || &op == &ops::kReduceProd; }

/// The longest block that `extent` is a multiple of; 0 where none is long enough.
int64_t EvenBlock(int64_t extent) {
  for (int64_t blocks = (extent + kBlock - 1) / kBlock; extent / blocks >= kMinBlock; ++blocks) {
    if (extent % blocks == 0) return extent / blocks;
  }
  return 0;
}

/// Writes what replaces one reduction.
class ReductionSplitter {
 public:
  ReductionSplitter(GraphBuilder& out, const GraphNode& node) : out_(out), node_(node) {}

  GraphValue Run() {
    GraphValue value = node_.inputs[0];
    if (out_.TypeOf(value).numel() == 0) return Identity();
    const DType dtype = out_.TypeOf(value).dtype(), wide = WideFor(out_.TypeOf(value));
    value = out_.Cast(ReduceGroups(out_.Cast(value, wide)), dtype);
    return out_.Reshape(value, node_.type().sizes());
  }

 private:
  /// The dtype in which sums are computed: f32 for 16-bit floats, f64 for sums of very many
  /// numbers.
  DType WideFor(const Shape& from) const {
    DType dtype = from.dtype();
    if (!Accumulates(*node_.op)) return dtype;
    if (dtype == DType::kF16 || dtype == DType::kBF16) return DType::kF32;
    bool many = from.numel() / node_.type().numel() > kMaxExtent;
    return many && dtype == DType::kF32 && node_.op == &ops::kReduceSum ? DType::kF64 : dtype;
  }

  /// The result of a reduction over no elements.
  GraphValue Identity() {
    bool one = node_.op == &ops::kReduceProd || node_.op == &ops::kReduceAll;
    DType dtype = node_.type().dtype();
    return out_.Broadcast(out_.Constant(Scalar(int64_t{one}), dtype), node_.type().sizes());
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
    value = out_.Reshape(value, merged);
    for (size_t i = groups.size(); i-- > 0;) value = ReduceDim(value, groups[i]);
    return value;
  }

  /// Without the dim.
  GraphValue ReduceDim(GraphValue value, int dim) {
    while (out_.TypeOf(value).size(dim) > kMaxExtent) value = ReduceBlocks(value, dim);
    return out_.Add(*node_.op, {value}, {Attr(Dims{dim}), Attr(false)});
  }

  /// The dim counts blocks afterwards.
  GraphValue ReduceBlocks(GraphValue value, int dim) {
    int64_t extent = out_.TypeOf(value).size(dim);
    int64_t block = EvenBlock(extent);
    if (block != 0) return ReduceEvenBlocks(value, dim, block);
    int64_t whole = extent / kBlock * kBlock;
    GraphValue blocks = ReduceEvenBlocks(out_.Slice(value, dim, 0, whole), dim, kBlock);
    GraphValue rest =
        ReduceEvenBlocks(out_.Slice(value, dim, whole, extent - whole), dim, extent - whole);
    return out_.Add(ops::kConcat, {blocks, rest}, {Attr(int64_t{dim})});
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
    value = out_.Reshape(value, Dims{before, counted[dim], block, after});
    value = out_.Add(*node_.op, {value}, {Attr(Dims{2}), Attr(false)});
    return out_.Reshape(value, counted);
  }

  GraphBuilder& out_;
  const GraphNode& node_;
};

}  // namespace

Graph SplitReductions(Graph graph) {
  return EditGraph(std::move(graph),
                   [](GraphEditor& editor, NodeId, const GraphNode& node) -> Replacement {
                     if (!compiler::IsReduction(*node.op)) return std::nullopt;
                     // Nothing is reduced over no dims: then it is the operand itself.
                     return {{ReductionSplitter(editor, node).Run()}};
                   });
}

}  // namespace hammock
