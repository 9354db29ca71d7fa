#include "runtime/diagnose/graph_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/id_format.h"
#include "ir/primitives.h"

namespace hammock {

namespace {

constexpr size_t kLongestValue = 120;
constexpr int kDeepest = 8;

std::string Where(const GraphNode& node) {
  std::string text = LocationText(node.location);
  return text.empty() ? "line unknown" : "at " + text;
}

/// "%4 = mul (at model.cpp:12)"
std::string Name(const Graph& graph, NodeId id) {
  return fmt::format("%{} = {} ({})", id, graph[id].op->name(), Where(graph[id]));
}

std::string Name(const Graph& graph, GraphValue value) {
  if (!value.node) return "absent";
  if (value.index == 0) return Name(graph, value.node);
  return fmt::format("output {} of {}", value.index, Name(graph, value.node));
}

std::string Shortened(std::string text) {
  if (text.size() > kLongestValue) text.replace(kLongestValue, std::string::npos, "...");
  return text;
}

bool IsInput(const GraphNode& node) { return node.op == &ops::kInput; }

GraphDifference DifferenceAt(const Graph& now, const Graph& cached, int depth);

GraphDifference AttributeDifference(const Graph& now, const Graph& cached, NodeId id, int depth) {
  const GraphNode &a = now[id], &b = cached[id];
  if (a.attrs.size() != b.attrs.size()) {
    return {"attribute", fmt::format("{} has {} attributes, in the cached graph {} ({})",
                                     Name(now, id), a.attrs.size(), b.attrs.size(), Where(b))};
  }
  size_t at = 0;
  while (a.attrs[at] == b.attrs[at]) ++at;
  const std::string& name = a.op->info().AttributeName(static_cast<int>(at));
  const Attr &x = a.attrs[at], &y = b.attrs[at];
  if (x.kind() == Attr::Kind::kGraph && y.kind() == Attr::Kind::kGraph && depth < kDeepest) {
    GraphDifference inner = DifferenceAt(x.graph(), y.graph(), depth + 1);
    return {"attribute", fmt::format("attribute `{}` of {} differs ({} in the cached graph): {}",
                                     name, Name(now, id), Where(b), inner.detail)};
  }
  return {"attribute",
          fmt::format("attribute `{}` of {} is {}, in the cached graph {} ({})", name,
                      Name(now, id), Shortened(x.to_string()), Shortened(y.to_string()), Where(b))};
}

/// Dims first of the same rank, so that the text can name the one that changed.
std::string SizeText(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return fmt::format("has rank {}, not {}", a.rank(), b.rank());
  int dim = 0;
  while (a.size(dim) == b.size(dim)) ++dim;
  return fmt::format("has size {} in dim {}, not {}", a.size(dim), dim, b.size(dim));
}

GraphDifference TypeDifference(const Graph& now, const Graph& cached, NodeId id) {
  const GraphNode &a = now[id], &b = cached[id];
  if (a.types.size() != b.types.size()) {
    return {"shape", fmt::format("{} has {} outputs, in the cached graph {} ({})", Name(now, id),
                                 a.types.size(), b.types.size(), Where(b))};
  }
  size_t at = 0;
  while (a.types[at] == b.types[at]) ++at;
  const Shape &x = a.types[at], &y = b.types[at];
  std::string output = a.types.size() > 1 ? fmt::format("output {} of ", at) : "";
  bool dtype = x.dtype() != y.dtype();
  return {dtype ? "dtype" : "shape",
          fmt::format("{}{} {}: {}, in the cached graph {} ({})", output, Name(now, id),
                      dtype ? fmt::format("is {}, not {}", NameOf(x.dtype()), NameOf(y.dtype()))
                            : SizeText(x, y),
                      x.to_string(), y.to_string(), Where(b))};
}

GraphDifference OperandDifference(const Graph& now, const Graph& cached, NodeId id) {
  const GraphNode &a = now[id], &b = cached[id];
  size_t common = std::min(a.inputs.size(), b.inputs.size());
  for (size_t i = 0; i < common; ++i) {
    if (a.inputs[i] == b.inputs[i]) continue;
    return {"operand", fmt::format("operand {} of {} is {}; in the cached graph ({}) it is {}", i,
                                   Name(now, id), Name(now, a.inputs[i]), Where(b),
                                   Name(cached, b.inputs[i]))};
  }
  return {"operand", fmt::format("{} has {} operands, in the cached graph {} ({})", Name(now, id),
                                 a.inputs.size(), b.inputs.size(), Where(b))};
}

/// One graph has a new input at `id` where the other uses an earlier input once more: whether two
/// operands are the same tensor differs.
std::optional<std::string> AliasDifference(const Graph& separate, const Graph& shared, NodeId id,
                                           bool separate_now) {
  NodeId user = id;
  while (separate.Contains(user) && IsInput(separate[user])) ++user;
  if (!separate.Contains(user)) return std::nullopt;
  const GraphNode &a = separate[user], &b = shared[id];
  if (a.op != b.op || a.attrs != b.attrs || a.inputs.size() != b.inputs.size()) return std::nullopt;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    GraphValue own = a.inputs[i], other = b.inputs[i];
    if (own.node < id || own.node >= user || !other.node || other.node >= id) continue;
    if (!IsInput(shared[other.node])) continue;
    return fmt::format(
        "operand {} of {} ({}) is {}; in the cached graph ({}) it is {}", i, a.op->name(),
        Where(separate_now ? a : b),
        separate_now ? "a tensor of its own" : "the same tensor as " + Name(shared, other.node),
        Where(separate_now ? b : a),
        separate_now ? "the same tensor as " + Name(shared, other.node) : "a tensor of its own");
  }
  return std::nullopt;
}

/// Whether `longer` is `shorter` with nodes inserted at `id`.
bool IsInsertion(const Graph& longer, const Graph& shorter, NodeId id) {
  int more = longer.size() - shorter.size();
  if (more <= 0) return false;
  for (NodeId at = id; shorter.Contains(at); ++at) {
    if (longer[at + more].op != shorter[at].op) return false;
  }
  return true;
}

GraphDifference ExtraNodes(const Graph& now, const Graph& cached, NodeId id) {
  bool more = now.size() > cached.size();
  const Graph& longer = more ? now : cached;
  const Graph& shorter = more ? cached : now;
  std::string counterpart =
      shorter.size() == 0 ? "" : Name(shorter, std::min(id, NodeId(shorter.size() - 1)));
  return {"extra nodes",
          fmt::format("{} has {} more node(s), first {}; {} has {} there",
                      more ? "the graph" : "the cached graph", longer.size() - shorter.size(),
                      Name(longer, id), more ? "the cached graph" : "this one",
                      shorter.Contains(id) ? counterpart : "nothing after " + counterpart)};
}

GraphDifference OpDifference(const Graph& now, const Graph& cached, NodeId id) {
  if (IsInput(now[id]) != IsInput(cached[id])) {
    bool here = IsInput(now[id]);
    auto alias = AliasDifference(here ? now : cached, here ? cached : now, id, here);
    if (alias) return {"alias", *alias};
  }
  if (IsInsertion(now, cached, id) || IsInsertion(cached, now, id)) {
    return ExtraNodes(now, cached, id);
  }
  std::string hint;
  if (IsInput(now[id])) hint = "; its value was computed before, or is given by the caller";
  if (IsInput(cached[id])) hint = "; there its value had been computed before";
  return {"op", fmt::format("{}, in the cached graph {}{}", Name(now, id), Name(cached, id), hint)};
}

GraphDifference OutputDifference(const Graph& now, const Graph& cached) {
  constexpr char kKeeper[] = "a live handle or a pending op";
  auto has = [](const Graph& graph, GraphValue value) {
    return std::binary_search(graph.outputs().begin(), graph.outputs().end(), value);
  };
  // The walk lists outputs in order; graphs of other origin may not.
  bool sorted = std::is_sorted(now.outputs().begin(), now.outputs().end()) &&
                std::is_sorted(cached.outputs().begin(), cached.outputs().end());
  for (GraphValue value : now.outputs()) {
    if (!sorted || has(cached, value)) continue;
    return {"live output",
            fmt::format("{} is an output, in the cached graph ({}) it is none: {} keeps it now",
                        Name(now, value), Where(cached[value.node]), kKeeper)};
  }
  for (GraphValue value : cached.outputs()) {
    if (!sorted || has(now, value)) continue;
    return {"live output",
            fmt::format("{} is no output, in the cached graph ({}) it is one: {} kept it then",
                        Name(now, value), Where(cached[value.node]), kKeeper)};
  }
  return {"live output", fmt::format("the {} outputs are others, or in another order, than the {} "
                                     "of the cached graph: {} keeps them",
                                     now.outputs().size(), cached.outputs().size(), kKeeper)};
}

GraphDifference DifferenceAt(const Graph& now, const Graph& cached, int depth) {
  const NodeId common(std::min(now.size(), cached.size()));
  for (NodeId id(0); id < common; ++id) {
    const GraphNode &a = now[id], &b = cached[id];
    if (a.op != b.op) return OpDifference(now, cached, id);
    // An attribute that changed is the cause of a type that changed.
    if (a.attrs != b.attrs) return AttributeDifference(now, cached, id, depth);
    if (a.types != b.types) return TypeDifference(now, cached, id);
    if (a.inputs != b.inputs) return OperandDifference(now, cached, id);
  }
  if (now.size() != cached.size()) return ExtraNodes(now, cached, common);
  if (now.outputs() != cached.outputs()) return OutputDifference(now, cached);
  return {};
}

bool SameKind(const GraphNode& a, const GraphNode& b) {
  return a.op == b.op && a.attrs == b.attrs && a.types == b.types;
}

}  // namespace

GraphDifference FirstDifference(const Graph& now, const Graph& cached) {
  return DifferenceAt(now, cached, 0);
}

bool AreAlike(const Graph& now, const Graph& cached, int64_t similarity) {
  return similarity >= 2 * int64_t{std::max(now.size(), cached.size())};
}

bool IsLaterStep(const Graph& now, const Graph& cached) {
  int64_t ops = 0, more = 0;
  NodeId at(0);
  for (const GraphNode& node : now.nodes()) {
    if (IsInput(node)) continue;
    for (; cached.Contains(at) && !SameKind(node, cached[at]); ++at) more += !IsInput(cached[at]);
    if (!cached.Contains(at)) return false;
    ++at;
    ++ops;
  }
  for (; cached.Contains(at); ++at) more += !IsInput(cached[at]);
  return ops > 0 && more > 0;
}

int64_t Similarity(const Graph& now, const Graph& cached) {
  const NodeId common(std::min(now.size(), cached.size()));
  int64_t more = std::abs(int64_t{now.size()} - cached.size());
  NodeId prefix(0);
  while (prefix < common && SameKind(now[prefix], cached[prefix]) &&
         now[prefix].inputs == cached[prefix].inputs) {
    ++prefix;
  }
  int64_t in_place = 0;  // the rest, node by node
  for (NodeId id = prefix; id < common; ++id) {
    const GraphNode &a = now[id], &b = cached[id];
    if (a.op != b.op) continue;
    in_place += 2 + (a.attrs == b.attrs) + (a.types == b.types) + (a.inputs == b.inputs);
  }
  int64_t from_end = 0;  // the rest, if nodes were inserted
  const int rest = common - prefix;
  for (int back = 1; more > 0 && back <= rest; ++back) {
    if (!SameKind(now[NodeId(now.size() - back)], cached[NodeId(cached.size() - back)])) break;
    from_end += 4;
  }
  return 5 * int64_t{prefix.number()} + std::max(in_place, from_end) - more +
         (now.outputs() == cached.outputs());
}

}  // namespace hammock
