#include "compiler/passes/channels_last.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "compiler/facts/fusion_facts.h"
#include "compiler/passes/graph_editor.h"
#include "ir/primitives.h"
#include "ops/primitives/channels_last.h"

namespace hammock {

using compiler::IsGenerated;
using compiler::IsPointwise;
using compiler::IsView;
using compiler::ReductionOf;

namespace {

constexpr int64_t kFewChannels = 16;  // shorter rows are slow for kernels
constexpr int64_t kMostTaps = 16;     // of a window that becomes slices

/// Whether pixels become one dim, and nothing else changes.
bool MergesPixels(const Graph& graph, const GraphNode& node) {
  if (node.op != &ops::kReshape || node.type().rank() != 3) return false;
  const Dims& from = graph.TypeOf(node.inputs[0]).sizes();
  const Dims& to = node.type().sizes();
  return from.size() >= 3 && from[0] == to[0] && from[1] == to[1];
}

/// Whether all pixels of each channel of [N, C, pixels] are combined.
bool ReducesPixels(const Graph& graph, const GraphNode& node) {
  return ReductionOf(node) && graph.TypeOf(node.inputs[0]).rank() == 3 &&
         node.attrs[0].ints() == std::vector<int64_t>{2} && !node.attrs[1].boolean();
}

bool IsWeightGradient(const GraphNode& node) { return node.op == &ops::kConvolutionWeightBackward; }

bool ReadsImages(const GraphNode& node) {
  return node.op == &ops::kConvolution || IsWeightGradient(node);
}

/// The windows of a reduce_window over the spatial dims of images.
struct Windows {
  const GraphNode& node;
  const std::vector<int64_t>&window, &stride, &dilation;

  explicit Windows(const GraphNode& node)
      : node(node),
        window(node.attrs[1].ints()),
        stride(node.attrs[2].ints()),
        dilation(node.attrs[5].ints()) {}

  bool sums() const { return node.attrs[0].str() == "sum"; }
  int64_t taps() const {
    return std::accumulate(window.begin(), window.end(), int64_t{1}, std::multiplies<>());
  }

  /// Whether none reaches over the edge of `input`.
  bool Suits(const Shape& input) const {
    size_t spatial = input.rank() - 2;
    if (input.rank() < 3 || input.dtype() != DType::kF32 || window.size() != spatial) return false;
    for (size_t i = 0; i < spatial; ++i) {
      int64_t last = (node.type().size(static_cast<int>(i) + 2) - 1) * stride[i];
      bool inside = node.attrs[3].ints()[i] == 0 &&
                    last + dilation[i] * (window[i] - 1) < input.size(static_cast<int>(i) + 2);
      if (!inside) return false;
    }
    return taps() <= kMostTaps;
  }
};

bool IsWindow(const Graph& graph, const GraphNode& node) {
  return node.op == &ops::kReduceWindow && node.type().numel() > 0 &&
         Windows(node).Suits(graph.TypeOf(node.inputs[0]));
}

/// The choice of values with channels last. Values that one kernel computes from each other form a
/// group with one layout; a group gains by channels last where convolutions read or write it, and
/// loses where other ops do.
class Layouts {
 public:
  Layouts(const Graph& graph, const ImageRules& rules)
      : graph_(graph),
        rules_(rules),
        kinds_(graph.size()),
        takes_(graph.size()),
        group_(graph.size()) {
    std::iota(group_.begin(), group_.end(), NodeId(0));
    for (NodeId id : graph.ids()) Join(id);
    NodeMap<Group> groups = Weigh();
    for (NodeId id : graph.ids()) {
      const Group& group = groups[Find(id)];
      bool gains = group.convolutions && !group.narrow && group.gain > group.loss;
      last_.push_back(gains && kinds_[id] != Kind::kPlain);
    }
  }

  bool any() const { return std::find(last_.begin(), last_.end(), true) != last_.end(); }
  bool last(GraphValue value) const { return value.node && last_[value.node]; }
  /// Whether a convolution, or the gradient of a weight, reads an image with its channels last.
  bool ReadsLast(NodeId id, int operand) const {
    return takes_[id] && last(graph_[id].inputs[operand]);
  }
  /// Whether a reduction reads its operand with its channels last.
  bool ReducesLast(NodeId id) const {
    return rules_.reductions && ReducesPixels(graph_, graph_[id]) && last(graph_[id].inputs[0]);
  }

 private:
  enum class Kind : uint8_t { kPlain, kPointwise, kMerged, kWindow, kConvolution };
  struct Group {
    int64_t gain = 0, loss = 0;  // elements that are, or have to be, brought into another order
    bool convolutions = false;
    bool narrow = false;
  };

  NodeId Find(NodeId id) {
    while (group_[id] != id) id = group_[id] = group_[group_[id]];
    return id;
  }
  void Unite(NodeId a, NodeId b) { group_[Find(a)] = Find(b); }

  /// Repeated or computed wherever it is needed: its order does not matter.
  static bool HasNoOrder(const GraphNode& node) {
    return IsGenerated(node) || node.op == &ops::kBroadcast;
  }

  void Join(NodeId id) {
    const GraphNode& node = graph_[id];
    if (node.types.size() != 1 || node.type().rank() < 3) return;
    if (ReadsImages(node)) {
      takes_[id] = rules_.takes(graph_, node);
      if (takes_[id] && !IsWeightGradient(node)) kinds_[id] = Kind::kConvolution;
    } else if (rules_.windows && IsWindow(graph_, node)) {
      kinds_[id] = Kind::kWindow;
      Unite(id, node.inputs[0].node);
    } else if (rules_.reductions && MergesPixels(graph_, node)) {
      kinds_[id] = Kind::kMerged;
      Unite(id, node.inputs[0].node);
    } else if (IsPointwise(graph_, node)) {
      kinds_[id] = Kind::kPointwise;
      for (GraphValue input : node.inputs) {
        if (!HasNoOrder(graph_[input.node])) Unite(id, input.node);
      }
    }
  }

  bool IsCall(const GraphNode& node) const {
    return !IsPointwise(graph_, node) && !IsView(node) && !IsGenerated(node) &&
           !ReductionOf(node) && node.op != &ops::kInput;
  }

  /// Whether nodes have to be in memory as they are, for a call or a result.
  NodeMap<bool> InMemory() const {
    NodeMap<bool> needed(graph_.size());
    for (GraphValue output : graph_.outputs()) needed[output.node] = true;
    for (NodeId id : graph_.ids().reversed()) {
      const GraphNode& node = graph_[id];
      if (kinds_[id] != Kind::kPlain || takes_[id]) continue;
      bool reads = IsCall(node) || (IsView(node) && needed[id]);
      for (GraphValue input : node.inputs) {
        if (input.node && reads) needed[input.node] = true;
      }
    }
    return needed;
  }

  NodeMap<Group> Weigh() {
    NodeMap<Group> groups(graph_.size());
    NodeMap<bool> needed = InMemory();
    auto group_of = [&](NodeId id) -> Group& { return groups[Find(id)]; };
    for (NodeId id : graph_.ids()) {
      const GraphNode& node = graph_[id];
      if (node.types.empty()) continue;
      const Shape& type = node.types[0];
      Group& group = group_of(id);
      Kind kind = kinds_[id];
      group.narrow |= kind != Kind::kPlain && type.size(1) < kFewChannels;
      if (kind == Kind::kConvolution) Count(group, type.numel());
      const size_t images = !takes_[id] ? 0 : IsWeightGradient(node) ? 2 : 1;
      for (GraphValue input : std::span(node.inputs).first(images)) {
        if (kinds_[input.node] == Kind::kPlain) continue;
        Count(group_of(input.node), graph_.TypeOf(input).numel());
      }
      if (kind == Kind::kPlain) {
        group.loss += type.numel();
      }
      if (needed[id] && kind != Kind::kPlain) group.loss += type.numel();
    }
    return groups;
  }

  static void Count(Group& group, int64_t elements) {
    group.convolutions = true;
    group.gain += elements;
  }

  const Graph& graph_;
  const ImageRules& rules_;
  NodeMap<Kind> kinds_;
  NodeMap<bool> takes_;    // images with either layout
  NodeMap<NodeId> group_;  // another one of its group, or itself
  NodeMap<bool> last_;
};

/// Builds the graph anew with values that lie as `layouts` says.
class Builder {
 public:
  Builder(const Graph& graph, const Layouts& layouts)
      : graph_(graph), layouts_(layouts), editor_(graph), transposed_(graph.size()) {}

  Graph Run() {
    for (NodeId id : graph_.ids()) {
      editor_.For(graph_[id]);
      const OpDef* op = graph_[id].op;
      if (op == &ops::kConvolution) {
        editor_.Keep(id, ConvolutionAt(id));
      } else if (IsWeightGradient(graph_[id])) {
        editor_.Keep(id, WeightGradientAt(id));
      } else if (layouts_.last({id, 0}) && op == &ops::kReduceWindow) {
        editor_.Replace(id, WindowsOf(graph_[id]));
      } else if (layouts_.last({id, 0}) && op == &ops::kReshape) {
        editor_.Replace(id, MergedPixels(graph_[id]));
      } else if (layouts_.ReducesLast(id)) {
        GraphValue image = Get(graph_[id].inputs[0], true);
        editor_.Replace(id, editor_.Add(*op, {image}, {Attr(Dims{1}), Attr(false)}));
      } else {
        editor_.Keep(id, PointwiseOrPlain(id));
      }
    }
    std::vector<GraphValue> outputs;
    for (GraphValue output : graph_.outputs()) outputs.push_back(Get(output, false));
    Graph out = editor_.Finish();
    out.SetOutputs(std::move(outputs));
    return out;
  }

 private:
  /// A value with its channels last or first: as it lies, or by a permute that is made once.
  GraphValue Get(GraphValue value, bool last) {
    if (!value.node) return value;
    GraphValue lies = editor_.Mapped(value);
    if (layouts_.last(value) == last) return lies;
    std::optional<GraphValue>& transposed = transposed_[value.node];
    if (transposed && value.index == 0) return *transposed;
    const int rank = editor_.TypeOf(lies).rank();
    Dims order = last ? ops::ChannelsToLast(rank) : ops::ChannelsToFirst(rank);
    GraphValue made = editor_.Add(ops::kPermute, {lies}, {Attr(order)});
    if (value.index == 0) transposed = made;
    return made;
  }

  GraphNode PointwiseOrPlain(NodeId id) {
    const bool last = layouts_.last({id, 0});
    GraphNode node = graph_[id];
    node.inputs.Map([&](GraphValue input) { return Get(input, last); });
    if (last) node.types.Set(0, ops::WithChannelsLast(node.types[0]));
    return node;
  }

  GraphNode ConvolutionAt(NodeId id) {
    GraphNode node = graph_[id];
    bool input_last = layouts_.ReadsLast(id, 0);
    bool result_last = layouts_.last({id, 0});
    node.inputs = {Get(node.inputs[0], input_last), Get(node.inputs[1], false)};
    if (input_last || result_last) {
      node.op = &ops::kConvolutionLast;
      node.attrs.push_back(input_last);
      node.attrs.push_back(result_last);
    }
    if (result_last) node.types.Set(0, ops::WithChannelsLast(node.types[0]));
    return node;
  }

  GraphNode WeightGradientAt(NodeId id) {
    GraphNode node = graph_[id];
    const bool last[] = {layouts_.ReadsLast(id, 0), layouts_.ReadsLast(id, 1)};
    node.inputs = {Get(node.inputs[0], last[0]), Get(node.inputs[1], last[1])};
    if (last[0] || last[1]) {
      node.op = &ops::kConvolutionWeightBackwardLast;
      for (bool each : last) node.attrs.push_back(each);
    }
    return node;
  }

  GraphValue MergedPixels(const GraphNode& node) {
    const Shape type = ops::WithChannelsLast(node.type());
    return editor_.Reshape(Get(node.inputs[0], true), type.sizes());
  }

  /// The elements of all windows at one position within the window.
  GraphValue Tap(GraphValue input, const Windows& windows, int64_t tap) {
    for (size_t i = windows.window.size(); i-- > 0; tap /= windows.window[i]) {
      int dim = static_cast<int>(i) + 1;
      int64_t start = tap % windows.window[i] * windows.dilation[i];
      int64_t count = windows.node.type().size(dim + 1);
      input = editor_.Slice(input, dim, start, count, windows.stride[i]);
    }
    return input;
  }

  /// Sums begin with 0 and go in order, as maxima do; those over two dims go by columns first.
  GraphValue WindowsOf(const GraphNode& node) {
    Windows windows(node);
    GraphValue input = Get(node.inputs[0], true);
    const Shape type = ops::WithChannelsLast(node.type());
    auto combine = [&](std::optional<GraphValue> all, GraphValue next) {
      if (!all && !windows.sums()) return next;
      if (!all) all = editor_.Broadcast(editor_.Constant(Scalar(0.0), type.dtype()), type.sizes());
      return editor_.Add(windows.sums() ? ops::kAdd : ops::kMaximum, {*all, next}, {}, type);
    };
    int64_t columns = !windows.sums() && windows.window.size() == 2 ? windows.window[1] : 1;
    std::optional<GraphValue> all;
    for (int64_t column = 0; column < columns; ++column) {
      std::optional<GraphValue> part;
      for (int64_t tap = column; tap < windows.taps(); tap += columns) {
        part = combine(part, Tap(input, windows, tap));
      }
      all = columns == 1 ? *part : combine(all, *part);
    }
    return *all;
  }

  const Graph& graph_;
  const Layouts& layouts_;
  GraphEditor editor_;
  NodeMap<std::optional<GraphValue>> transposed_;  // with the other order of dims
};

}  // namespace

Graph KeepChannelsLast(Graph graph, const ImageRules& rules) {
  if (std::ranges::none_of(graph.nodes(), ReadsImages)) return graph;
  Layouts layouts(graph, rules);
  return layouts.any() ? Builder(graph, layouts).Run() : graph;
}

}  // namespace hammock
