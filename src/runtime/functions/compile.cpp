#include "hammock/compile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/throw.h"
#include "hammock/autocast.h"
#include "hammock/caller_scope.h"
#include "hammock/config.h"
#include "hammock/executor.h"
#include "hammock/ops/create.h"
#include "ir/primitives.h"
#include "runtime/functions/trace_function.h"
#include "trace/stand_ins.h"
#include "trace/tensor_impl.h"

namespace hammock {

constinit config::Option<int64_t> config::kVerifyReplay({
    .name = "verify_replay",
    .default_value = 0,
    .doc = "Every how many calls a function made by `compile` is traced again, to see that it "
           "still records the same; 0: never.",
});
namespace {

constexpr char kOp[] = "compile";

/// While one lives, tensors have no gradients; then they have those that they had.
class WithoutGrads {
 public:
  explicit WithoutGrads(const std::vector<Tensor>& tensors) : tensors_(tensors) {
    for (const Tensor& tensor : tensors) before_.push_back(tensor.grad());
    Clear();
  }
  ~WithoutGrads() {
    for (size_t i = 0; i < tensors_.size(); ++i) Set(tensors_[i], before_[i]);
  }
  WithoutGrads(const WithoutGrads&) = delete;
  WithoutGrads& operator=(const WithoutGrads&) = delete;

  void Clear() {
    for (const Tensor& tensor : tensors_) Set(tensor, Tensor());
  }

 private:
  static void Set(Tensor tensor, const Tensor& grad) {
    if (grad.defined() || tensor.grad().defined()) tensor.set_grad(grad);
  }
  const std::vector<Tensor>& tensors_;
  std::vector<Tensor> before_;
};

/// The line of the first op that uses a parameter of the graph.
std::string LineOfUse(const Graph& graph, size_t parameter) {
  NodeId input = graph.inputs()[parameter];
  for (const GraphNode& node : graph.nodes()) {
    for (const GraphValue& operand : node.inputs) {
      if (operand.node == input) return LocationText(node.location);
    }
  }
  return "its result";
}

/// The state that must be the same whenever the function is traced.
struct Recorded {
  Hash128 hash;
  std::vector<uint64_t> key;
  std::vector<std::pair<Scalar, std::string>> numbers;  // with their lines

  explicit Recorded(const TracedFunction& traced) : hash(traced.hash), key(traced.key) {
    for (const ParameterSource& source : traced.parameters) {
      if (!source.number) continue;
      size_t index = static_cast<size_t>(&source - traced.parameters.data());
      numbers.emplace_back(*source.number, LineOfUse(traced.graph, index));
    }
  }
};

void RefuseOthers(const TracedFunction& traced) {
  for (size_t i = 0; i < traced.parameters.size(); ++i) {
    const ParameterSource& source = traced.parameters[i];
    if (!source.from_outside) continue;
    Throw(ErrorCode::kValue,
          "{}: the function uses a tensor {} [at {}] that is neither an argument nor in the list "
          "of its state; replays would not see changes of it",
          kOp, source.constant.shape().to_string(), LineOfUse(traced.graph, i));
  }
}

}  // namespace

struct Replayed::State {
  struct Entry {
    std::vector<Shape> signature;
    std::vector<bool> training;
    std::optional<DType> autocast;
    CompiledGraph graph;
    Recorded recorded;
    int64_t calls = 0;
  };

  TensorsFn fn;
  std::vector<StateOf> listed;
  std::vector<Tensor> tensors;  // of those, each once
  std::vector<Entry> entries;

  std::vector<Tensor> RunEagerly(const std::vector<Tensor>& args) const;
  TracedFunction Trace(const std::vector<Tensor>& all, size_t arguments, Location at) const;
  void Verify(const Entry& entry, const std::vector<Tensor>& all, size_t arguments,
              Location at) const;
  Entry& EntryOf(const std::vector<Tensor>& all, size_t arguments, Location at);
};

/// The function itself, with what a replay leaves behind: no history, no gradients.
std::vector<Tensor> Replayed::State::RunEagerly(const std::vector<Tensor>& args) const {
  std::vector<Tensor> given;
  for (const Tensor& arg : args) given.push_back(arg.detach());
  WithoutGrads grads(tensors);
  std::vector<Tensor> results = fn(given);
  for (Tensor& result : results) {
    if (result.defined()) result = result.detach();
  }
  return results;
}

TracedFunction Replayed::State::Trace(const std::vector<Tensor>& all, size_t arguments,
                                      Location at) const {
  auto with_state = [&](const std::vector<Tensor>& inputs) {
    auto split = inputs.begin() + static_cast<int64_t>(arguments);
    WithoutGrads grads(tensors);
    StandIns stand_ins(tensors, std::vector<Tensor>(split, inputs.end()));
    std::vector<Tensor> outputs = fn(std::vector<Tensor>(inputs.begin(), split));
    grads.Clear();
    stand_ins.PassWritesOn();
    return outputs;
  };
  CallerScope caller(at);
  TracedFunction traced = TraceFunction(kOp, with_state, all, at, Kept::kRefused);
  RefuseOthers(traced);
  return traced;
}

void Replayed::State::Verify(const Entry& entry, const std::vector<Tensor>& all, size_t arguments,
                             Location at) const {
  Recorded now(Trace(all, arguments, at));
  const Recorded& then = entry.recorded;
  if (now.hash != then.hash || now.key != then.key) {
    Throw(ErrorCode::kValue,
          "{}: the function records other ops than when it was compiled; a branch in it depends "
          "on something that is no argument",
          kOp);
  }
  for (size_t i = 0; i < now.numbers.size(); ++i) {
    if (now.numbers[i].first == then.numbers[i].first) continue;
    Throw(ErrorCode::kValue,
          "{}: a number [at {}] was {} when the function was compiled and is {} now; make it an "
          "argument",
          kOp, now.numbers[i].second, then.numbers[i].first.to_string(),
          now.numbers[i].first.to_string());
  }
}

Replayed::State::Entry& Replayed::State::EntryOf(const std::vector<Tensor>& all, size_t arguments,
                                                 Location at) {
  std::vector<bool> training;
  for (const StateOf& part : listed) part.AppendTraining(training);
  auto fits = [&](const Entry& entry) {
    if (entry.autocast != AutocastGuard::dtype() || entry.training != training) return false;
    for (size_t i = 0; i < arguments; ++i) {
      if (entry.signature[i] != all[i].shape()) return false;
    }
    return true;
  };
  auto found = std::find_if(entries.begin(), entries.end(), fits);
  if (found != entries.end()) return *found;
  std::vector<Shape> signature;
  for (size_t i = 0; i < arguments; ++i) signature.push_back(all[i].shape());
  TracedFunction traced = Trace(all, arguments, at);
  Recorded recorded(traced);
  entries.push_back({std::move(signature), std::move(training), AutocastGuard::dtype(),
                     std::move(traced).Compile(at), std::move(recorded)});
  return entries.back();
}

Replayed::Replayed(TensorsFn fn, std::initializer_list<StateOf> state, Location at)
    : state_(std::make_shared<State>()) {
  LocationScope scope(at);
  state_->fn = std::move(fn);
  state_->listed = state;
  for (const StateOf& part : state) {
    for (const Tensor& tensor : part.tensors()) {
      if (!tensor.defined())
        Throw(ErrorCode::kValue, "{}: a tensor of the state is undefined", kOp);
      bool known = std::any_of(state_->tensors.begin(), state_->tensors.end(),
                               [&](const Tensor& other) { return other.is_same(tensor); });
      if (!known) state_->tensors.push_back(tensor);
    }
  }
}

std::vector<Tensor> Replayed::Call(std::span<const TensorArg> args) const {
  State& state = *state_;
  Location at = args.empty() ? Location() : args[0].at();
  Device device;
  if (!state.tensors.empty()) device = state.tensors[0].device();
  for (const TensorArg& arg : args) {
    if (!arg.is_tensor()) continue;
    if (!arg.tensor().defined()) ThrowUndefined(kOp, arg.at());
    device = arg.tensor().device();
  }
  std::vector<Tensor> all;
  for (const TensorArg& arg : args) {
    all.push_back(arg.is_tensor() ? arg.tensor()
                                  : tensor(arg.scalar(), arg.scalar().dtype(), device, at));
  }
  if (InEagerMode()) return state.RunEagerly(all);
  all.insert(all.end(), state.tensors.begin(), state.tensors.end());
  State::Entry& entry = state.EntryOf(all, args.size(), at);
  int64_t verify = config::Get<config::kVerifyReplay>();
  if (verify > 0 && ++entry.calls % verify == 0) state.Verify(entry, all, args.size(), at);
  NoGradGuard no_grad;
  return entry.graph(all, at);
}

size_t Replayed::traces() const { return state_->entries.size(); }

}  // namespace hammock
