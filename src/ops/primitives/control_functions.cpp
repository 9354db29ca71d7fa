#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/control.h"
#include "hammock/ir/graph.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "hammock/random.h"
#include "ir/graph_node_of.h"
#include "ir/primitives.h"
#include "ops/primitives/collectives.h"
#include "trace/operands_first.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {
namespace {

using Tensors = std::vector<Tensor>;
using ValueKey = std::pair<const Node*, int>;

ValueKey KeyOf(const Value& value) { return {value.node.get(), static_cast<int>(value.index)}; }

/// Values from around the functions of a call, which become operands.
class Captured {
 public:
  /// `used`: tensors whose histories the values have; other values have none.
  Captured(const char* call, const Tensors& used) : call_(call) {
    for (const Tensor& tensor : used) used_.emplace(KeyOf(tensor.value()), tensor);
  }

  void Add(const Node& node, int index) {
    const ValueKey key{&node, index};
    if (!numbers_.emplace(key, static_cast<int>(tensors_.size())).second) return;
    auto found = used_.find(key);
    tensors_.push_back(found != used_.end() ? found->second : WithoutHistory(node, index));
  }
  const Tensors& tensors() const { return tensors_; }
  /// Values by their numbers among the tensors.
  const std::map<ValueKey, int>& numbers() const { return numbers_; }

  /// Refuses results with a history that no captured tensor explains.
  void CheckHistory(bool wanted) const {
    if (!wanted) return;
    for (const Tensor& tensor : tensors_) {
      if (tensor.requires_grad()) return;
    }
    Throw(
        ErrorCode::kValue,
        "{}: a function uses a tensor that requires grad and is not known to the call; make it an "
        "operand",
        call_);
  }

 private:
  /// Inside of another function nothing is pending: values there are symbolic.
  static Tensor WithoutHistory(const Node& node, int index) {
    NodePtr kept(const_cast<Node*>(&node));
    return NewTensor({std::move(kept), static_cast<uint32_t>(index)}, Context().symbolic > 0);
  }

  const char* const call_;
  std::map<ValueKey, Tensor> used_;
  std::map<ValueKey, int> numbers_;
  Tensors tensors_;
};

/// A function that was called with symbolic tensors.
class Body {
 public:
  Body(const ControlFn& function, std::vector<Shape> types) : types_(std::move(types)) {
    SymbolicScope symbolic;
    for (const Shape& type : types_) inputs_.push_back(SymbolicTensor(type));
    // The function may write its arguments.
    for (const Tensor& input : inputs_) given_.push_back(input.value());
    for (size_t i = 0; i < given_.size(); ++i) {
      numbers_.emplace(given_[i].node.get(), static_cast<int>(i));
    }
    const uint64_t drawn = Generator::Default().offset();
    results_ = CallUser([&] { return function(inputs_); });
    draws_ = Generator::Default().offset() != drawn;
    for (const Tensor& result : results_)
      values_.push_back(ValueOf("result of a function", result));
  }

  /// Whether the function drew numbers of the default generator.
  bool draws() const { return draws_; }
  bool requires_grad() const {
    for (const Tensor& result : results_) {
      if (result.requires_grad()) return true;
    }
    return false;
  }

  /// Adds the values that the results depend on and that do not depend on the inputs.
  void AddTo(Captured& captured) const {
    const std::map<const Node*, bool> depends = FindDependent();
    std::set<const Node*> seen;
    std::vector<const Node*> stack;
    auto visit = [&](const Node& node, int index) {
      if (numbers_.contains(&node)) return;
      if (!depends.at(&node) && IsOutside(node)) return captured.Add(node, index);
      if (seen.insert(&node).second) stack.push_back(&node);
    };
    for (const Value& value : values_) visit(*value.node, static_cast<int>(value.index));
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      for (const Node::Operand& operand : node->operands()) {
        if (operand.node) visit(*operand.node, static_cast<int>(operand.index));
      }
    }
  }

  /// The graph of the inputs, then of what was captured; with `also` inputs as further results.
  std::shared_ptr<const Graph> MakeGraph(const Captured& captured, bool returns_captured) const {
    Graph graph;
    std::map<ValueKey, GraphValue> made;
    for (size_t i = 0; i < inputs_.size(); ++i) made[KeyOf(given_[i])] = graph.AddInput(types_[i]);
    std::vector<GraphValue> outside(captured.tensors().size());
    for (size_t i = 0; i < outside.size(); ++i)
      outside[i] = graph.AddInput(captured.tensors()[i].shape());
    for (const auto& [key, number] : captured.numbers())
      made[key] = outside[static_cast<size_t>(number)];
    for (const Value& value : values_) graph.AddOutput(Emit(graph, made, value));
    if (returns_captured) {
      for (GraphValue value : outside) graph.AddOutput(value);
    }
    return std::make_shared<const Graph>(std::move(graph));
  }

 private:
  /// Whether a node that depends on no input can be an operand: others are made anew.
  static bool IsOutside(const Node& node) {
    return node.device() != kNoDevice || (node.IsLeaf() && &node.op() != &ops::kConstant);
  }

  /// Every node that the results are made of, and whether it depends on an input.
  std::map<const Node*, bool> FindDependent() const {
    std::map<const Node*, bool> depends;
    for (const auto& [input, number] : numbers_) depends[input] = true;
    auto done = [&](const Node& node, uint32_t) { return depends.contains(&node); };
    auto visit = [&](const Node& node) {
      depends[&node] = std::ranges::any_of(node.operands(), [&](const Node::Operand& operand) {
        return operand.node && depends.at(operand.node);
      });
    };
    for (const Value& value : values_) VisitOperandsFirst(value, done, visit);
    return depends;
  }

  static GraphValue Emit(Graph& graph, std::map<ValueKey, GraphValue>& made, const Value& root) {
    auto done = [&](const Node& node, uint32_t index) {
      return made.contains({&node, static_cast<int>(index)});
    };
    auto visit = [&](const Node& node) {
      NodeId id = graph.Append(GraphNodeOf(node, [&](const Node::Operand& operand) {
        return made.at({operand.node, static_cast<int>(operand.index)});
      }));
      for (int i = 0; i < node.num_outputs(); ++i) made[{&node, i}] = {id, i};
    };
    VisitOperandsFirst(root, done, visit);
    return made.at(KeyOf(root));
  }

  std::vector<Shape> types_;
  Tensors inputs_, results_;
  std::vector<Value> given_, values_;  // of the inputs before the call, of the results
  std::map<const Node*, int> numbers_;
  bool draws_ = false;
};

std::vector<Shape> TypesOf(const Tensors& tensors) {
  std::vector<Shape> types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.shape());
  return types;
}

Tensors Joined(const Tensors& first, const Tensors& second) {
  Tensors all = first;
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

/// A function whose iterations would all draw the same numbers.
void RefuseRandom(const char* call, const Body& body) {
  if (!body.draws()) return;
  Throw<NotSupported>(ErrorCode::kNotSupported,
                      "{}: the function draws random numbers, which would be the same in every "
                      "iteration; draw them before the call",
                      call);
}

/// A condition has no dims: one of one element loses them.
ControlFn WithoutDims(const ControlFn& condition) {
  return [&condition](const Tensors& in) {
    Tensors results = condition(in);
    for (Tensor& result : results) {
      if (result.dim() > 0 && result.numel() == 1) result = result.reshape({});
    }
    return results;
  };
}

}  // namespace

std::vector<Tensor> cond(const Tensor& predicate, const ControlFn& then, const ControlFn& otherwise,
                         const std::vector<Tensor>& operands, const std::vector<Tensor>& used,
                         Location at) {
  LocationScope scope(at);
  const Body first(then, TypesOf(operands)), second(otherwise, TypesOf(operands));
  Captured captured("cond", used);
  first.AddTo(captured);
  second.AddTo(captured);
  captured.CheckHistory(first.requires_grad() || second.requires_grad());
  Tensors all{predicate.numel() == 1 ? predicate.reshape({}) : predicate};
  all = Joined(Joined(all, operands), captured.tensors());
  const Attr attrs[] = {first.MakeGraph(captured, false), second.MakeGraph(captured, false)};
  return ApplyMulti(ops::kCond, at, all, attrs);
}

std::vector<Tensor> while_loop(const ControlFn& condition, const ControlFn& body,
                               const std::vector<Tensor>& carried, Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  const Body first(WithoutDims(condition), TypesOf(carried)), second(body, TypesOf(carried));
  Captured captured("while_loop", {});
  first.AddTo(captured);
  second.AddTo(captured);
  RefuseRandom("while_loop", first);
  RefuseRandom("while_loop", second);
  const Attr attrs[] = {first.MakeGraph(captured, false), second.MakeGraph(captured, true)};
  Tensors results = ApplyMulti(ops::kWhile, at, Joined(carried, captured.tensors()), attrs);
  results.resize(carried.size());
  return results;
}

std::vector<Tensor> for_loop(int64_t count, const ControlFn& body,
                             const std::vector<Tensor>& carried, const std::vector<Tensor>& stacked,
                             const std::vector<Tensor>& used, Location at) {
  LocationScope scope(at);
  std::vector<Shape> types{Shape(DType::kI64, {})};
  for (const Tensor& tensor : carried) types.push_back(tensor.shape());
  for (const Tensor& tensor : stacked) {
    Dims sizes = tensor.sizes();
    if (sizes.size() == 0 || sizes[0] != count) {
      Throw(ErrorCode::kShapeMismatch,
            "for_loop: a stacked operand is {}, needs {} as its first size",
            tensor.shape().to_string(), count);
    }
    sizes.erase(0);
    types.push_back(tensor.shape().With(sizes));
  }
  const Body traced(body, types);
  Captured captured("for_loop", used);
  traced.AddTo(captured);
  RefuseRandom("for_loop", traced);
  captured.CheckHistory(traced.requires_grad());
  const Attr attrs[] = {traced.MakeGraph(captured, false), count,
                        static_cast<int64_t>(carried.size()), static_cast<int64_t>(stacked.size())};
  Tensors results =
      ApplyMulti(ops::kLoop, at, Joined(Joined(carried, stacked), captured.tensors()), attrs);
  ops::NoteCollectives(ops::kLoop, attrs, results);
  return results;
}

}  // namespace hammock
