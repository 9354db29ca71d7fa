#include "compiler/passes/merge_collectives.h"

#include <algorithm>
#include <vector>

#include "compiler/facts/effects.h"
#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"
#include "ops/primitives/collectives.h"

namespace hammock {
namespace {

bool HasShards(const OpDef* op) { return op == &ops::kAllGather || op == &ops::kReduceScatter; }

/// Without elements a collective sends no message; one by one, a merged one would send it.
bool CanMerge(const GraphNode& node) {
  return (node.op == &ops::kAllReduce || HasShards(node.op)) && node.attr("size").integer() > 1 &&
         node.type().numel() > 0;
}

/// Also a node whose body has collectives: nothing is moved past it.
bool IsOrdered(const GraphNode& node) { return EffectOf(node) == Effect::kOrdered; }

/// Bytes of the larger side.
int64_t BytesOf(const Graph& graph, const GraphNode& node) {
  return std::max(node.type().bytes(), graph.TypeOf(node.inputs[0]).bytes());
}

/// Collectives that become one, in their order.
using Bucket = std::vector<NodeId>;

/// Finds the buckets of a graph.
class Buckets {
 public:
  explicit Buckets(const Graph& graph)
      : graph_(graph), numbers_(graph.size(), -1), needs_(graph.size(), -1) {
    for (NodeId id : graph.ids()) {
      for (GraphValue input : graph[id].inputs) {
        if (input.node)
          needs_[id] = std::max({needs_[id], needs_[input.node], numbers_[input.node]});
      }
      if (IsOrdered(graph[id])) Visit(id);
    }
    Close();
  }
  std::vector<Bucket> Take() { return std::move(done_); }

 private:
  void Visit(NodeId id) {
    const GraphNode& node = graph_[id];
    numbers_[id] = count_++;
    if (!CanMerge(node)) return Close();
    if (!Fits(id)) Close();
    open_.push_back(id);
    bytes_ += BytesOf(graph_, node);
  }
  bool Fits(NodeId id) const {
    if (open_.empty()) return false;
    const GraphNode& node = graph_[id];
    const GraphNode& first = graph_[open_[0]];
    const bool is_alike = node.op == first.op && std::ranges::equal(node.attrs, first.attrs) &&
                          node.type().dtype() == first.type().dtype();
    return is_alike && bytes_ + BytesOf(graph_, node) <= distributed::BucketBytes() &&
           needs_[id] < numbers_[open_[0]];
  }
  void Close() {
    if (open_.size() > 1) done_.push_back(open_);
    open_.clear();
    bytes_ = 0;
  }

  const Graph& graph_;
  NodeMap<int> numbers_;  // of ordered nodes, in their order; -1: of others
  NodeMap<int> needs_;    // the last ordered node that an operand needs; -1: none
  int count_ = 0;
  Bucket open_;
  int64_t bytes_ = 0;
  std::vector<Bucket> done_;
};

class Merger {
 public:
  explicit Merger(Graph graph)
      : editor_(std::move(graph)), is_late_(editor_.source().size(), false) {}

  Graph Run(const std::vector<Bucket>& buckets) {
    auto bucket = buckets.begin();
    for (NodeId id : editor_.source().ids()) {
      const bool is_member = bucket != buckets.end() && std::ranges::binary_search(*bucket, id);
      if (is_member && id == bucket->back()) {
        Merge(*bucket++);
        KeepLate();
      } else if (is_member) {
        is_late_[id] = true;
      } else if (NeedsLate(id)) {
        is_late_[id] = true;
        late_.push_back(id);
      } else {
        editor_.Keep(id, editor_.Take(id));
      }
    }
    return editor_.Finish();
  }

 private:
  bool NeedsLate(NodeId id) const {
    return std::ranges::any_of(editor_.source()[id].inputs, [&](GraphValue input) {
      return input.node && is_late_[input.node];
    });
  }
  /// Nodes that need the results of a bucket come behind it.
  void KeepLate() {
    for (NodeId id : late_) editor_.Keep(id, editor_.Take(id));
    late_.clear();
    is_late_.assign(is_late_.size(), false);
  }

  void Merge(const Bucket& bucket) {
    const GraphNode last = editor_.source()[bucket.back()];
    const int64_t ranks = last.attr("size").integer();
    // Values with shards lie side by side in rows, of which the operand has one for each rank, or
    // the result has.
    const int64_t rows = last.op == &ops::kReduceScatter ? ranks : 1;
    const bool has_rows = HasShards(last.op);
    const int dim = has_rows ? 1 : 0;
    editor_.For(last);
    std::vector<GraphValue> operands;
    std::vector<int64_t> splits;  // may be more than a shape has dims
    for (NodeId id : bucket) {
      GraphValue operand = editor_.Mapped(editor_.source()[id].inputs[0]);
      const int64_t count = editor_.TypeOf(operand).numel() / rows;
      operands.push_back(editor_.Reshape(operand, has_rows ? Dims{rows, count} : Dims{count}));
      splits.push_back(count);
    }
    GraphValue together = editor_.Add(ops::kConcat, operands, {Attr(int64_t{dim})});
    const bool reduces = last.op != &ops::kAllGather;
    GraphValue merged = editor_.Add(
        ops::kMergedCollective, {together},
        {Attr(last.op->name()), Attr(splits), reduces ? last.attrs[0] : Attr(std::string()),
         last.attr("group"), last.attr("size")});
    int64_t begin = 0;
    for (size_t i = 0; i < bucket.size(); ++i) {
      const int64_t count = splits[i];
      const Dims sizes = editor_.source()[bucket[i]].type().sizes();
      GraphValue own = editor_.Slice(merged, dim, begin, count);
      editor_.Replace(bucket[i], editor_.Reshape(own, sizes));
      begin += count;
    }
  }

  GraphEditor editor_;
  NodeMap<bool> is_late_;     // is not there yet: in a bucket, or needs one of it
  std::vector<NodeId> late_;  // of the latter, in their order
};

/// `reduce_scatter` and the `all_gather` of its shards, which comes next among the collectives.
Graph MergePairs(Graph graph) {
  NodeMap<int> uses(graph.size(), 0);
  for (NodeId id : graph.ids()) {
    for (GraphValue input : graph[id].inputs) {
      if (input.node) ++uses[input.node];
    }
  }
  for (GraphValue output : graph.outputs()) ++uses[output.node];
  NodeMap<NodeId> scatter_of(graph.size(), NodeId());  // by gather
  NodeId last;
  bool any = false;
  for (NodeId id : graph.ids()) {
    const GraphNode& node = graph[id];
    if (!IsOrdered(node)) continue;
    const bool is_pair = last && node.op == &ops::kAllGather && CanMerge(node) &&
                         graph[last].op == &ops::kReduceScatter && node.inputs[0].node == last &&
                         uses[last] == 1 && graph[last].attr("group") == node.attr("group");
    if (is_pair) scatter_of[id] = last;
    any = any || is_pair;
    last = id;
  }
  if (!any) return graph;
  GraphEditor editor(std::move(graph));
  NodeMap<bool> is_merged(editor.source().size(), false);
  for (NodeId id : editor.source().ids()) {
    if (scatter_of[id]) is_merged[scatter_of[id]] = true;
  }
  for (NodeId id : editor.source().ids()) {
    if (is_merged[id]) continue;
    if (!scatter_of[id]) {
      editor.Keep(id, editor.Take(id));
      continue;
    }
    const GraphNode scatter = editor.source()[scatter_of[id]];
    editor.For(scatter);
    editor.Replace(id, editor.Add(ops::kMergedCollective, {editor.Mapped(scatter.inputs[0])},
                                  {Attr(std::string("reduce_scatter_all_gather")),
                                   Attr(std::vector<int64_t>()), scatter.attrs[0],
                                   scatter.attr("group"), scatter.attr("size")}));
  }
  return editor.Finish();
}

}  // namespace

Graph MergeCollectives(Graph graph) {
  if (std::ranges::none_of(graph.nodes(), CanMerge)) return graph;
  graph = MergePairs(std::move(graph));
  const std::vector<Bucket> buckets = Buckets(graph).Take();
  return buckets.empty() ? std::move(graph) : Merger(std::move(graph)).Run(buckets);
}

}  // namespace hammock
