#include <algorithm>
#include <set>

#include "hammock/op_builder.h"
#include "ir/primitives.h"
#include "onnx/operators/families.h"
#include "onnx/program.h"
#include "ops/primitives/loop.h"

namespace hammock::onnx {
namespace {

/// Values that bodies take from around them: tensors become operands of the control op, others are
/// used as they are.
class Captured {
 public:
  Captured(Call& c, std::span<const format::Graph* const> graphs) : c_(c) {
    std::set<std::string> names;
    for (const format::Graph* graph : graphs) {
      for (const std::string& name : OuterNames(*graph)) names.insert(name);
    }
    for (const std::string& name : names) {
      const Value* value = c.run().scope().Find(name);
      if (!value) c.Fail("the body uses '{}', which nothing has computed", name);
      names_.push_back(name);
      values_.push_back(*value);
      bool operand = value->kind == Value::Kind::kTensor &&
                     (value->tensor.defined() || value->source->uses_parameters());
      operands_.push_back(operand);
      if (operand) tensors_.push_back(c.run().TensorOf(*value));
    }
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }

  /// The scope of a body, where `tensors` stand for the operands.
  Scope Inside(std::span<const Tensor> tensors) const {
    Scope scope;
    size_t next = 0;
    for (size_t i = 0; i < names_.size(); ++i) {
      Value value = values_[i];
      if (operands_[i]) value.tensor = tensors[next++];
      scope.Set(names_[i], std::move(value));
    }
    return scope;
  }

 private:
  Call& c_;
  std::vector<std::string> names_;
  Values values_;
  std::vector<bool> operands_;
  std::vector<Tensor> tensors_;
};

std::vector<Shape> TypesOf(std::span<const Tensor> tensors) {
  std::vector<Shape> types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.shape());
  return types;
}

std::vector<Tensor> TensorsOf(Run& run, const Values& values) {
  std::vector<Tensor> tensors;
  for (const Value& value : values) {
    if (value.element) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "a result of {}", NameOfElement(value.element));
    }
    tensors.push_back(run.TensorOf(value));
  }
  return tensors;
}

/// Whether the state of a loop can hold the values after the first two.
bool AreCarried(const Call& c) {
  return std::ranges::all_of(c.inputs().subspan(std::min<size_t>(c.size(), 2)), [](const Value& v) {
    return v.kind == Value::Kind::kTensor && !v.element;
  });
}

Values Branch(Call& c, const format::Graph& graph) {
  Scope scope(&c.run().scope());
  return c.run().RunGraph(graph, scope);
}

/// One `cond` of both branches. Fails where they differ in types or need values while traced.
Values AsCond(Call& c, const Tensor& condition, const format::Graph& then,
              const format::Graph& otherwise) {
  const format::Graph* graphs[] = {&then, &otherwise};
  Captured captured(c, graphs);
  std::vector<Shape> types = TypesOf(captured.tensors());
  auto traced = [&](const format::Graph& graph) {
    return std::make_shared<const hammock::Graph>(
        c.run().TraceBody(types, [&](std::span<const Tensor> in) {
          Scope scope = captured.Inside(in);
          return TensorsOf(c.run(), c.run().RunGraph(graph, scope));
        }));
  };
  std::vector<Tensor> operands{condition.reshape({})};
  operands.insert(operands.end(), captured.tensors().begin(), captured.tensors().end());
  const Attr attrs[] = {traced(then), traced(otherwise)};
  std::vector<Tensor> results = ApplyMulti(ops::kCond, Location(), operands, attrs);
  return Values(results.begin(), results.end());
}

Values If(Call& c) {
  const format::Graph& then = c.Graph("then_branch");
  const format::Graph& otherwise = c.Graph("else_branch");
  std::string why;
  if (!c.At(0).known()) {
    std::optional<Values> values =
        c.run().Attempt(c.node(), "cond", why, [&] { return AsCond(c, c[0], then, otherwise); });
    if (values) return *values;
  }
  bool condition;
  try {
    condition = c.Number(0).ToBool();
  } catch (Error& error) {
    if (!why.empty()) error.AddNote("the branches are no `cond`: " + why);
    throw;
  }
  return Branch(c, condition ? then : otherwise);
}

/// Iterations that are recorded one by one: sequences, shapes that change, values that are read.
Values Unrolled(Call& c, const format::Graph& body, std::optional<int64_t> most) {
  size_t carried = c.size() - std::min<size_t>(c.size(), 2);
  bool go = !c.Has(1) || c.Number(1).ToBool();
  Values state(c.inputs().begin() + static_cast<long>(c.size() - carried), c.inputs().end());
  size_t scans = body.outputs.size() - 1 - carried;
  std::vector<std::vector<Tensor>> stacked(scans);
  for (int64_t i = 0; go && (!most || i < *most); ++i) {
    c.run().Spend(1);
    Scope scope(&c.run().scope());
    scope.Set(body.inputs.at(0).name, Value::Known(HostTensor::From(Scalar(i))));
    scope.Set(body.inputs.at(1).name, Value::Known(HostTensor::From(Scalar(go))));
    for (size_t k = 0; k < carried; ++k) scope.Set(body.inputs.at(k + 2).name, state[k]);
    Values results = c.run().RunGraph(body, scope);
    go = c.run().HostOf(results[0]).at(0).ToBool();
    for (size_t k = 0; k < carried; ++k) state[k] = results[k + 1];
    for (size_t k = 0; k < scans; ++k) {
      stacked[k].push_back(TensorsOf(c.run(), {results[k + 1 + carried]})[0]);
    }
  }
  for (size_t k = 0; k < scans; ++k) {
    if (stacked[k].empty()) {
      const format::Type& type = body.outputs[k + 1 + carried].type;
      Dims sizes{0};
      for (const format::Dim& dim : type.dims) sizes.push_back(std::max<int64_t>(dim.value, 0));
      state.push_back(zeros(sizes, DTypeOfElement(type.element), c.device()));
    } else {
      state.push_back(stack(stacked[k]));
    }
  }
  return state;
}

/// One `loop`. Fails where the body stops it or changes types.
Values AsLoop(Call& c, const format::Graph& body, int64_t count) {
  size_t carried = c.size() - 2;
  const format::Graph* graphs[] = {&body};
  Captured captured(c, graphs);
  ops::LoopOperands operands;
  for (size_t k = 0; k < carried; ++k) operands.carried.push_back(c[k + 2]);
  operands.invariant = captured.tensors();
  bool stops = false;
  std::vector<Tensor> results = ops::Loop(count, operands, [&](const ops::LoopStep& s) {
    // The loop's symbolic trace is one of the run's.
    return std::vector<Tensor>(c.run().InTrace([&] {
      Scope scope = captured.Inside(s.invariant);
      scope.Set(body.inputs.at(0).name, s.index);
      scope.Set(body.inputs.at(1).name, Value::Known(HostTensor::From(Scalar(true))));
      for (size_t k = 0; k < carried; ++k) scope.Set(body.inputs.at(k + 2).name, s.carried[k]);
      Values values = c.run().RunGraph(body, scope);
      stops = !values[0].known() || !c.run().HostOf(values[0]).at(0).ToBool();
      values.erase(values.begin());
      return TensorsOf(c.run(), values);
    }));
  });
  if (stops) c.Fail("the body may stop the loop");
  return Values(results.begin(), results.end());
}

/// One `while` of iteration, condition and carried values. Fails where types change.
Values AsWhile(Call& c, const format::Graph& body, std::optional<int64_t> most) {
  size_t carried = c.size() - 2;
  const format::Graph* graphs[] = {&body};
  Captured captured(c, graphs);
  std::vector<Tensor> operands{zeros({}, DType::kI64, c.device()),
                               c.Has(1) ? c[1].reshape({}) : ones({}, DType::kBool, c.device())};
  for (size_t k = 0; k < carried; ++k) operands.push_back(c[k + 2]);
  operands.insert(operands.end(), captured.tensors().begin(), captured.tensors().end());
  std::vector<Shape> types = TypesOf(operands);
  auto condition = c.run().TraceBody(types, [&](std::span<const Tensor> in) {
    Tensor go = in[1];
    if (most) go = logical_and(go, in[0] < *most);
    return std::vector<Tensor>{go};
  });
  auto step = c.run().TraceBody(types, [&](std::span<const Tensor> in) {
    Scope scope = captured.Inside(in.subspan(2 + carried));
    scope.Set(body.inputs.at(0).name, in[0]);
    scope.Set(body.inputs.at(1).name, in[1]);
    for (size_t k = 0; k < carried; ++k) scope.Set(body.inputs.at(k + 2).name, in[k + 2]);
    std::vector<Tensor> results = TensorsOf(c.run(), c.run().RunGraph(body, scope));
    results[0] = results[0].reshape({});
    results.insert(results.begin(), in[0] + 1);
    std::span<const Tensor> rest = in.subspan(2 + carried);
    results.insert(results.end(), rest.begin(), rest.end());
    return results;
  });
  const Attr attrs[] = {std::make_shared<const hammock::Graph>(std::move(condition)),
                        std::make_shared<const hammock::Graph>(std::move(step))};
  std::vector<Tensor> results = ApplyMulti(ops::kWhile, Location(), operands, attrs);
  return Values(results.begin() + 2, results.begin() + 2 + static_cast<long>(carried));
}

Values Loop(Call& c) {
  const format::Graph& body = c.Graph("body");
  size_t carried = c.size() - std::min<size_t>(c.size(), 2);
  if (body.inputs.size() != carried + 2 || body.outputs.size() < carried + 1) {
    c.Fail("the body has {} inputs and {} outputs for {} carried values", body.inputs.size(),
           body.outputs.size(), carried);
  }
  std::optional<int64_t> most;
  bool counted = c.Has(0) && c.At(0).known();
  bool starts = !c.Has(1) || (c.At(1).known() && c.Number(1).ToBool());
  if (counted) most = c.Number(0).ToInt();
  constexpr int64_t kFewest = 2;
  std::string why;
  if (counted && starts && *most >= kFewest && AreCarried(c)) {
    std::optional<Values> values =
        c.run().Attempt(c.node(), "loop", why, [&] { return AsLoop(c, body, *most); });
    if (values) return *values;
  }
  bool conditional = (!c.Has(0) || counted) && !(c.Has(1) && c.At(1).known() && !starts);
  bool stacks = body.outputs.size() != carried + 1;
  if (conditional && !stacks && AreCarried(c)) {
    std::optional<Values> values =
        c.run().Attempt(c.node(), "while", why, [&] { return AsWhile(c, body, most); });
    if (values) return *values;
  }
  if (c.Has(0) && !most) most = c.Number(0).ToInt();
  return Unrolled(c, body, most);
}

/// Along an axis of each scanned input; outputs are stacked.
Values Scan(Call& c) {
  const format::Graph& body = c.Graph("body");
  auto scanned = static_cast<size_t>(c.Int("num_scan_inputs", 1));
  bool batched = c.opset() < 9;
  size_t first = batched ? 1 : 0;
  if (c.size() < first + scanned) c.Fail("{} scanned inputs of {}", scanned, c.size());
  size_t carried = c.size() - first - scanned;
  if (batched && c.Has(0)) c.Unsupported("sequence lengths are not supported");
  std::vector<int64_t> in_axes = c.IntList("scan_input_axes");
  std::vector<int64_t> in_reverse = c.IntList(batched ? "directions" : "scan_input_directions");
  std::vector<int64_t> out_axes = c.IntList("scan_output_axes");
  std::vector<int64_t> out_reverse = c.IntList("scan_output_directions");
  auto at = [](const std::vector<int64_t>& list, size_t i) {
    return i < list.size() ? list[i] : 0;
  };
  const format::Graph* graphs[] = {&body};

  auto once = [&](std::vector<Tensor> state, std::vector<Tensor> inputs) {
    Captured captured(c, graphs);
    ops::LoopOperands operands;
    operands.carried = std::move(state);
    for (size_t k = 0; k < scanned; ++k) {
      Tensor x = inputs[k];
      int64_t axis = Wrapped(c, at(in_axes, k), x.dim());
      x = movedim(x, {axis}, {0});
      operands.stacked.push_back(at(in_reverse, k) ? flip(x, {0}) : x);
    }
    operands.invariant = captured.tensors();
    int64_t count = operands.stacked.empty() ? 0 : operands.stacked[0].size(0);
    std::vector<Tensor> results = ops::Loop(count, operands, [&](const ops::LoopStep& s) {
      return std::vector<Tensor>(c.run().InTrace([&] {
        Scope scope = captured.Inside(s.invariant);
        for (size_t k = 0; k < carried; ++k) scope.Set(body.inputs.at(k).name, s.carried[k]);
        for (size_t k = 0; k < scanned; ++k) {
          scope.Set(body.inputs.at(carried + k).name, s.slices[k]);
        }
        return TensorsOf(c.run(), c.run().RunGraph(body, scope));
      }));
    });
    for (size_t k = carried; k < results.size(); ++k) {
      Tensor& y = results[k];
      if (at(out_reverse, k - carried)) y = flip(y, {0});
      int64_t axis = Wrapped(c, at(out_axes, k - carried), y.dim());
      y = movedim(y, {0}, {axis});
    }
    return results;
  };

  std::vector<Tensor> state, inputs;
  for (size_t k = 0; k < carried; ++k) state.push_back(c[first + k]);
  for (size_t k = 0; k < scanned; ++k) inputs.push_back(c[first + carried + k]);
  std::vector<Tensor> results;
  if (!batched) {
    results = once(state, inputs);
  } else {  // each sample by itself
    std::vector<std::vector<Tensor>> samples;
    for (int64_t b = 0; b < inputs.at(0).size(0); ++b) {
      c.run().Spend(1);
      std::vector<Tensor> own_state, own_inputs;
      for (const Tensor& x : state) own_state.push_back(select(x, 0, b));
      for (const Tensor& x : inputs) own_inputs.push_back(select(x, 0, b));
      samples.push_back(once(own_state, own_inputs));
    }
    for (size_t k = 0; k < samples.at(0).size(); ++k) {
      std::vector<Tensor> parts;
      for (const auto& sample : samples) parts.push_back(sample[k]);
      results.push_back(stack(parts));
    }
  }
  return Values(results.begin(), results.end());
}

/// The body for each element of sequences.
Values SequenceMap(Call& c) {
  const format::Graph& body = c.Graph("body");
  std::vector<Values> results(body.outputs.size());
  for (size_t i = 0; i < c.At(0).items.size(); ++i) {
    c.run().Spend(1);
    Scope scope(&c.run().scope());
    for (size_t k = 0; k < c.size() && k < body.inputs.size(); ++k) {
      bool sequence = c.At(k).kind == Value::Kind::kSequence;
      scope.Set(body.inputs[k].name, sequence ? c.At(k).items.at(i) : c.At(k));
    }
    Values values = c.run().RunGraph(body, scope);
    for (size_t k = 0; k < values.size(); ++k) results[k].push_back(values[k]);
  }
  Values sequences;
  for (Values& items : results) sequences.push_back(Value::Sequence(std::move(items)));
  return sequences;
}

constexpr Operator kRows[] = {
    {"If", 1, kNewestOpset, If, Needs::kScope},
    {"Loop", 1, kNewestOpset, Loop, Needs::kScope},
    {"Scan", 8, kNewestOpset, Scan, Needs::kScope},
    {"SequenceMap", 17, kNewestOpset, SequenceMap, Needs::kScope},
};

}  // namespace

std::span<const Operator> ControlOperators() { return kRows; }

}  // namespace hammock::onnx
