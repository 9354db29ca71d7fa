#include "fuzz/shrink.h"

#include <algorithm>
#include <optional>
#include <set>

#include "fuzz/judge.h"
#include "hammock/error.h"
#include "ir/primitives.h"

namespace hammock::fuzz {
namespace {

using Fails = std::function<bool(const Case&)>;

/// The nodes that outputs need, and the inputs among them, with values where they are given.
Case Cleaned(const Graph& graph, const std::vector<GraphValue>& outputs,
             const NodeMap<std::optional<HostTensor>>& input_values) {
  NodeMap<bool> needed(graph.size());
  for (GraphValue output : outputs) needed[output.node] = true;
  for (NodeId id : graph.ids().reversed()) {
    if (!needed[id]) continue;
    for (GraphValue input : graph[id].inputs) {
      if (input.node) needed[input.node] = true;
    }
  }
  Case result;
  NodeMap<NodeId> map(graph.size());
  for (NodeId id : graph.ids()) {
    if (!needed[id]) continue;
    GraphNode node = graph[id];
    node.inputs.Map([&](GraphValue input) {
      return input.node ? GraphValue{map[input.node], input.index} : input;
    });
    if (node.op == &ops::kInput) {
      map[id] = result.graph.AddInput(node.type()).node;
      result.inputs.push_back(*input_values[id]);
    } else {
      map[id] = result.graph.Append(std::move(node));
    }
  }
  for (GraphValue output : outputs) {
    result.graph.AddOutput({map[output.node], output.index});
  }
  return result;
}

NodeMap<std::optional<HostTensor>> ValuesOfInputs(const Case& test) {
  NodeMap<std::optional<HostTensor>> values(test.graph.size());
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    values[test.graph.inputs()[i]] = test.inputs[i];
  }
  return values;
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
    any |= Take(test, Cleaned(test.graph, outputs, ValuesOfInputs(test)), fails);
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
    Graph graph;
    auto input_values = ValuesOfInputs(test);
    for (NodeId n : test.graph.ids()) {
      if (n == id || test.graph[n].op == &ops::kInput) {
        graph.AddInput(test.graph[n].type());
      } else {
        graph.Append(test.graph[n]);
      }
    }
    input_values[id] = values[id][0];
    any |= Take(test, Cleaned(graph, test.graph.outputs(), input_values), fails);
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
      Graph graph = test.graph;
      auto replaced = [&](GraphValue value) { return value.node == id ? operand : value; };
      for (NodeId n = id + 1; graph.Contains(n); ++n) {
        graph.mutable_node(n).inputs.Map(replaced);
      }
      std::vector<GraphValue> outputs = graph.outputs();
      for (GraphValue& output : outputs) output = replaced(output);
      if (Take(test, Cleaned(graph, outputs, ValuesOfInputs(test)), fails)) {
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
