#include "fuzz/shrink.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/passes/graph_editor.h"
#include "fuzz/judge.h"
#include "hammock/error.h"
#include "ir/primitives.h"

namespace hammock::fuzz {
namespace {

using Fails = std::function<bool(const Case&)>;

/// The nodes that outputs need, and the inputs among them with their values.
Case Cleaned(const Case& test) {
  const Graph& graph = test.graph;
  NodeMap<bool> needed(graph.size());
  for (GraphValue output : graph.outputs()) needed[output.node] = true;
  for (NodeId id : graph.ids().reversed()) {
    if (!needed[id]) continue;
    for (GraphValue input : graph[id].inputs) {
      if (input.node) needed[input.node] = true;
    }
  }
  Case result;
  GraphEditor editor(graph);
  for (NodeId id : graph.ids()) {
    if (needed[id]) editor.Keep(id, editor.Take(id));
  }
  result.graph = editor.Finish();
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    if (needed[graph.inputs()[i]]) result.inputs.push_back(test.inputs[i]);
  }
  return result;
}

bool Take(Case& test, Case smaller, const Fails& fails) {
  if (!fails(smaller)) return false;
  test = std::move(smaller);
  return true;
}

bool DropOutputs(Case& test, const Fails& fails) {
  bool any = false;
  for (size_t i = test.graph.outputs().size(); i-- > 0 && test.graph.outputs().size() > 1;) {
    std::vector<GraphValue> outputs = test.graph.outputs();
    if (i >= outputs.size()) continue;
    outputs.erase(outputs.begin() + static_cast<long>(i));
    Case smaller = test;
    smaller.graph.SetOutputs(std::move(outputs));
    any |= Take(test, Cleaned(smaller), fails);
  }
  return any;
}

/// A node becomes an input that has its value.
bool ReplaceByInputs(Case& test, const Fails& fails) {
  bool any = false;
  for (NodeId id : test.graph.ids().reversed()) {
    if (!test.graph.Contains(id)) continue;
    const GraphNode& node = test.graph[id];
    if (node.op == &ops::kInput || node.types.size() != 1) continue;
    auto values = NodeByNode(test);
    if (values.empty()) return any;
    Case smaller;
    smaller.graph = EditGraph(
        test.graph, [&](GraphEditor& editor, NodeId n, const GraphNode& node) -> Replacement {
          const bool is_input = n == id || node.op == &ops::kInput;
          if (is_input) smaller.inputs.push_back(values[n][0]);
          return n == id ? Replacement{{editor.AddInput(node.type())}} : std::nullopt;
        });
    any |= Take(test, Cleaned(smaller), fails);
  }
  return any;
}

/// Users of a node use an operand of the same type instead.
bool SkipNodes(Case& test, const Fails& fails) {
  bool any = false;
  for (NodeId id : test.graph.ids().reversed()) {
    if (!test.graph.Contains(id)) continue;
    for (size_t i = 0; test.graph.Contains(id) && i < test.graph[id].inputs.size(); ++i) {
      const GraphNode& node = test.graph[id];
      GraphValue operand = node.inputs[i];
      if (!operand.node || node.types.size() != 1) continue;
      if (test.graph.TypeOf(operand) != node.type()) continue;
      Case smaller = test;
      smaller.graph = EditGraph(
          test.graph, [&](GraphEditor& editor, NodeId n, const GraphNode&) -> Replacement {
            return n == id ? Replacement{{editor.Mapped(operand)}} : std::nullopt;
          });
      if (Take(test, Cleaned(smaller), fails)) {
        any = true;
        break;
      }
    }
  }
  return any;
}

/// The graph with every size `from` as `to`, types inferred anew; nothing where that cannot be.
std::optional<Case> Resized(const Case& test, int64_t from, int64_t to, uint64_t seed) {
  auto other = [&](int64_t size) { return size == from ? to : size; };
  try {
    Case result;
    for (const GraphNode& node : test.graph.nodes()) {
      if (node.op == &ops::kInput) {
        Dims sizes = node.type().sizes();
        for (int64_t& size : sizes) size = other(size);
        result.graph.AddInput(node.type().With(sizes));
        continue;
      }
      std::vector<Attr> attrs = node.attrs;
      for (size_t i = 0; i < attrs.size(); ++i) {
        const std::string& name = node.op->info().AttributeName(static_cast<int>(i));
        bool sizes = name == "sizes" || name == "size";
        if (!sizes) continue;
        if (attrs[i].kind() == Attr::Kind::kInts) {
          std::vector<int64_t> list = attrs[i].ints();
          for (int64_t& size : list) size = other(size);
          attrs[i] = Attr(list);
        } else if (attrs[i].kind() == Attr::Kind::kScalar) {
          attrs[i] = Attr(other(attrs[i].integer()));
        }
      }
      result.graph.AddNode(*node.op, node.inputs, attrs);
    }
    result.graph.SetOutputs(test.graph.outputs());
    Verify(result.graph);
    result.inputs = RandomInputs(result.graph, seed);
    return result;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool ShrinkSizes(Case& test, const Fails& fails) {
  std::set<int64_t, std::greater<>> sizes;
  for (const GraphNode& node : test.graph.nodes()) {
    for (const Shape& type : node.types) sizes.insert(type.sizes().begin(), type.sizes().end());
  }
  for (int64_t size : sizes) {
    for (int64_t smaller : {1, 2, 3, 4, 5, 8, 16, 17, 32, 33, 64, 65, 128, 256}) {
      if (smaller >= size) break;
      for (uint64_t seed : {1, 2}) {
        std::optional<Case> resized = Resized(test, size, smaller, seed);
        if (resized && Take(test, *resized, fails)) return true;
      }
    }
  }
  return false;
}

/// Values that a person can read, where they fail too.
void PlainValues(Case& test, const Fails& fails) {
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    Case plain = test;
    HostTensor tensor(test.inputs[i].shape());
    for (int64_t e = 0; e < tensor.numel(); ++e) {
      tensor.set(e, Scalar(e % 10 + 1).To(tensor.dtype()));
    }
    plain.inputs[i] = tensor;
    Take(test, plain, fails);
  }
}

}  // namespace

Case Shrink(Case test, const Fails& fails) {
  for (bool changed = true; changed;) {
    changed = DropOutputs(test, fails);
    changed |= ReplaceByInputs(test, fails);
    changed |= SkipNodes(test, fails);
    changed |= ShrinkSizes(test, fails);
  }
  PlainValues(test, fails);
  return test;
}

}  // namespace hammock::fuzz
