// backward, grad, jvp and custom functions.

#include <algorithm>

#include "autograd/custom_call.h"
#include "autograd/engine.h"
#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "runtime/step/budget.h"
#include "trace/hooks.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

/// The gradient that arrives at a root: the one given, or one for a tensor of one element.
Tensor Seed(const char* op, const Tensor& root, const Tensor& given) {
  if (given.defined()) {
    if (given.sizes() != root.sizes()) {
      Throw(ErrorCode::kShapeMismatch, "{}: the gradient that arrives at {} has another shape: {}",
            op, root.shape().to_string(), given.shape().to_string());
    }
    return given.dtype() == root.dtype() ? given : given.to(root.dtype());
  }
  if (root.numel() != 1 || root.is_complex()) {
    Throw(
        ErrorCode::kValue,
        "{}: grad can be implicitly created only for real tensors of one element, not for {}; pass "
        "the gradient that arrives at it",
        op, root.shape().to_string());
  }
  return ones_like(root.detach());
}

BackwardRequest Request(const char* op, std::span<const Tensor> roots,
                        std::span<const Tensor> grads, std::optional<bool> retain_graph,
                        bool create_graph) {
  if (!grads.empty() && grads.size() != roots.size()) {
    Throw(ErrorCode::kValue, "{}: {} gradients given for {} tensors", op, grads.size(),
          roots.size());
  }
  BackwardRequest request;
  for (size_t i = 0; i < roots.size(); ++i) {
    Value root = ValueOf(op, roots[i]);
    if (!root) ThrowUndefined(op);
    if (!root.tape) {
      Throw(ErrorCode::kValue,
            "{}: element {} of tensors does not require grad and has no history: {}", op, i,
            roots[i].summary());
    }
    request.roots.push_back(EdgeTo(root));
    GradModeScope mode(create_graph);
    request.grads.push_back(Seed(op, roots[i], grads.empty() ? Tensor() : grads[i]));
  }
  request.create_graph = create_graph;
  request.retain = retain_graph.value_or(create_graph);
  return request;
}

void AddTargets(const char* op, std::span<const Tensor> inputs, BackwardRequest& request) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value value = ValueOf(op, inputs[i]);
    if (!value) ThrowUndefined(op);
    if (!value.tape) {
      Throw(ErrorCode::kValue, "{}: input {} does not require grad: {}", op, i,
            inputs[i].summary());
    }
    request.targets.push_back(EdgeTo(value));
  }
}

}  // namespace

void backward(std::span<const Tensor> tensors, std::span<const Tensor> gradients,
              std::optional<bool> retain_graph, bool create_graph, std::span<const Tensor> inputs,
              Location at) {
  LocationScope scope(at);
  BackwardRequest request = Request("backward", tensors, gradients, retain_graph, create_graph);
  AddTargets("backward", inputs, request);
  request.accumulate = true;
  RunBackward(request);
  AtNaturalEnd(NaturalEnd::kBackward);
}

void Tensor::backward(Location at) const {
  hammock::backward(std::span(this, 1), {}, std::nullopt, false, {}, at);
}

void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph,
                      Location at) const {
  hammock::backward(std::span(this, 1), std::span(&gradient, 1), retain_graph, create_graph, {},
                    at);
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, std::optional<bool> retain_graph,
                         bool create_graph, bool allow_unused, Location at) {
  LocationScope scope(at);
  if (inputs.empty()) Throw(ErrorCode::kValue, "grad: needs at least one input");
  BackwardRequest request = Request("grad", outputs, grad_outputs, retain_graph, create_graph);
  AddTargets("grad", inputs, request);
  std::vector<Tensor> results = RunBackward(request);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined() || allow_unused) continue;
    Throw(ErrorCode::kValue,
          "grad: the outputs do not depend on input {} ({}); set allow_unused=true if an undefined "
          "gradient is wanted",
          i, inputs[i].summary());
  }
  return results;
}

std::pair<std::vector<Tensor>, std::vector<Tensor>> jvp(const TensorsFn& fn,
                                                        const std::vector<Tensor>& inputs,
                                                        const std::vector<Tensor>& tangents,
                                                        Location at) {
  LocationScope scope(at);
  if (!fn) Throw(ErrorCode::kValue, "jvp: the function is empty");
  if (inputs.size() != tangents.size()) {
    Throw(ErrorCode::kValue, "jvp: {} tangents given for {} inputs", tangents.size(),
          inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].shape() == tangents[i].shape()) continue;
    Throw(ErrorCode::kShapeMismatch, "jvp: tangent {} of {} must have its type, not {}", i,
          inputs[i].shape().to_string(), tangents[i].shape().to_string());
  }
  EnableGradGuard enable;
  bool has_history = false;  // then so have the results
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    has_history = has_history || inputs[i].requires_grad() || tangents[i].requires_grad();
    leaves.push_back(inputs[i].requires_grad() ? inputs[i].view_as(inputs[i])
                                               : inputs[i].detach().requires_grad_());
  }
  std::vector<Tensor> outputs = CallUser([&] { return fn(leaves); });
  // The gradient is linear in what arrives at the outputs: differentiating it with respect to that
  // gives the derivative along the tangents.
  std::vector<Tensor> roots, seeds;
  for (const Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    seeds.push_back(zeros_like(output.detach()).requires_grad_());
  }
  std::vector<Tensor> result_values, derivatives;
  std::vector<Tensor> along;
  if (!roots.empty()) {
    std::vector<Tensor> grads = grad(roots, leaves, seeds, true, true, true);
    std::vector<Tensor> reached, directions;
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined() || !grads[i].requires_grad()) continue;
      reached.push_back(grads[i]);
      directions.push_back(tangents[i]);
    }
    along.resize(seeds.size());
    if (!reached.empty()) along = grad(reached, seeds, directions, has_history, has_history, true);
  }
  size_t next = 0;
  for (const Tensor& output : outputs) {
    result_values.push_back(has_history ? output : output.detach());
    Tensor derivative = output.requires_grad() ? along[next++] : Tensor();
    derivatives.push_back(derivative.defined() ? derivative : zeros_like(output.detach()));
  }
  return {result_values, derivatives};
}

// ---- Custom functions

namespace autograd {

struct AutogradContext::State {
  /// A saved tensor: its value, and whose history it has.
  struct Saved {
    Value value;
    int output = -1;  // of the function; its history is the function itself
  };
  std::vector<Tensor> to_save;  // until forward has returned
  std::vector<Saved> saved;
  std::vector<Tensor> not_differentiable;
  std::vector<uint8_t> needed;
  std::vector<TapePtr> output_tapes;  // only while backward runs
  bool materialize = true;
  bool released = false;
};

AutogradContext::AutogradContext() : state_(std::make_unique<State>()) {}
AutogradContext::~AutogradContext() = default;

void AutogradContext::save_for_backward(std::vector<Tensor> tensors) {
  state_->to_save = std::move(tensors);
}

std::vector<Tensor> AutogradContext::get_saved_variables() const {
  if (!state_->to_save.empty()) return state_->to_save;
  std::vector<Tensor> tensors;
  for (const State::Saved& saved : state_->saved) {
    Value value = saved.value;
    if (saved.output >= 0) value.tape = state_->output_tapes[saved.output];
    tensors.push_back(value ? Tensor::FromValue(std::move(value)) : Tensor());
  }
  return tensors;
}

void AutogradContext::mark_non_differentiable(const std::vector<Tensor>& outputs) {
  state_->not_differentiable = outputs;
}

void AutogradContext::set_materialize_grads(bool materialize) { state_->materialize = materialize; }

bool AutogradContext::needs_input_grad(size_t input) const {
  return input < state_->needed.size() && state_->needed[input] != 0;
}

namespace {

class CustomEntry : public TapeEntry {
 public:
  CustomEntry(std::shared_ptr<AutogradContext> context, BackwardFn backward)
      : context_(std::move(context)), backward_(backward) {}
  std::string name() const override { return "a custom function"; }
  bool MaterializesGrads() const override { return context_->state().materialize; }

  std::vector<Tensor> Backward(const TapePtr& self, std::vector<Tensor>&& grads) override {
    AutogradContext::State& state = context_->state();
    if (state.released) ThrowReleased(*this);
    // They hold this entry, which holds them: never longer than backward runs.
    struct ClearedAtEnd {
      std::vector<TapePtr>& tapes;
      ~ClearedAtEnd() { tapes.clear(); }
    } cleared_at_end{state.output_tapes};
    for (size_t i = 0; i < types.size(); ++i) {
      state.output_tapes.push_back(OneResult("output", {self, static_cast<uint32_t>(i)}, types[i],
                                             device, [](const Tensor& grad) { return grad; }));
    }
    std::vector<Tensor> results =
        CallUser([&] { return backward_(context_.get(), std::move(grads)); });
    if (results.size() != edges.size()) {
      Throw(ErrorCode::kValue,
            "backward: a custom function returned {} gradients for {} tensor arguments",
            results.size(), edges.size());
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined() || !edges[i].entry) continue;
      if (results[i].sizes() != input_types[i].sizes()) {
        Throw(ErrorCode::kShapeMismatch,
              "backward: a custom function returned {} as the gradient of argument {}, a {}",
              results[i].shape().to_string(), i, input_types[i].to_string());
      }
      results[i] = results[i].to(input_types[i].dtype());
    }
    return results;
  }
  void Release() override {
    AutogradContext::State& state = context_->state();
    state.released = !state.saved.empty();
    state.saved.clear();
  }

  std::vector<Shape> input_types, output_types;

 private:
  std::shared_ptr<AutogradContext> context_;
  BackwardFn backward_;
};

/// The call for the mapped function that makes it.
CustomCall CallOf(const std::shared_ptr<AutogradContext>& context, std::vector<Value> inputs,
                  const std::vector<Tensor>& outputs, BackwardFn backward) {
  CustomCall call;
  call.inputs = std::move(inputs);
  for (const Tensor& output : outputs) {
    Value value = output.value();
    call.outputs.push_back({value.node, value.index});
  }
  for (const AutogradContext::State::Saved& saved : context->state().saved) {
    call.saved.push_back(saved.value);
  }
  call.backward = [context, backward](std::vector<Tensor> saved, std::vector<Tensor> grads) {
    std::vector<Tensor>& given = context->state().to_save;
    struct ClearedAtEnd {
      std::vector<Tensor>& tensors;
      ~ClearedAtEnd() { tensors.clear(); }
    } cleared_at_end{given};
    given = std::move(saved);
    return CallUser([&] { return backward(context.get(), std::move(grads)); });
  };
  return call;
}

}  // namespace

std::vector<Tensor> FinishFunction(std::shared_ptr<AutogradContext> context,
                                   const std::vector<Tensor>& inputs, std::vector<Tensor> outputs,
                                   BackwardFn backward, Location at) {
  LocationScope scope(at);
  AutogradContext::State& state = context->state();
  std::vector<Value> values;
  for (const Tensor& input : inputs) {
    values.push_back(input.defined() ? ValueOf("apply", input) : Value());
    state.needed.push_back(values.back().tape ? 1 : 0);
  }
  std::vector<Tensor> to_save = std::exchange(state.to_save, {});
  std::vector<Tensor> not_differentiable = std::exchange(state.not_differentiable, {});
  bool wanted = Context().grad_mode && std::ranges::any_of(values, [](const Value& value) {
                  return static_cast<bool>(value.tape);
                });
  if (!wanted) return outputs;

  auto* entry = new CustomEntry(context, backward);
  TapePtr tape = TapePtr::Adopt(entry);
  for (const Value& value : values) {
    entry->edges.push_back(EdgeTo(value));
    entry->input_types.push_back(value ? value.shape() : Shape());
  }
  entry->location = CurrentLocation();
  for (const Tensor& tensor : to_save) {
    AutogradContext::State::Saved saved{ValueOf("save_for_backward", tensor)};
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!tensor.defined() || !tensor.is_same(outputs[i])) continue;
      saved.output = static_cast<int>(i);
      saved.value.tape = {};
    }
    state.saved.push_back(std::move(saved));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value value = ValueOf("apply", outputs[i]);
    if (!value) ThrowUndefined("apply");
    entry->output_types.push_back(value.shape());
    entry->device = value.node->device();
    bool differentiable = IsFloatOrComplex(value.shape().dtype());
    for (const Tensor& other : not_differentiable) {
      differentiable = differentiable && !other.is_same(outputs[i]);
    }
    value.tape = {};
    if (differentiable) {
      value.tape = OneResult("output", {tape, static_cast<uint32_t>(i)}, value.shape(),
                             value.node->device(), [](const Tensor& grad) { return grad; });
    }
    outputs[i] = Tensor::FromValue(std::move(value));
  }
  entry->types = entry->output_types;
  if (MapTrace* mapping = Context().mapping) {
    NoteCustom(*mapping, CallOf(context, values, outputs, backward));
  }
  return outputs;
}

}  // namespace autograd
}  // namespace hammock
