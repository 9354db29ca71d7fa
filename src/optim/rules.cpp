#include "hammock/optim/rules.h"

#include <set>
#include <utility>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ops.h"

namespace hammock::optim {
namespace {

/// One update of one parameter. `lr`, `momentum` and `step` are f64[].
struct Update {
  Tensor& param;
  Tensor grad;
  const Tensor& lr;
  const Tensor& momentum;
  const Tensor& step;  // this update counted
  StateDict& state;
};

/// What `options` of most rules do first.
template <class Options>
void PrepareGrad(const Options& options, Update& u) {
  if constexpr (requires { options.maximize; }) {
    if (options.maximize) u.grad = -u.grad;
  }
  if (options.weight_decay != 0) u.grad = u.grad + u.param * options.weight_decay;
}

/// `average` moves towards `value`; returns it.
Tensor& Average(Tensor& average, const Tensor& value, double keep) {
  return average.copy_(average * keep + value * (1 - keep));
}

/// 1 - beta^step: what an average that began at zero lacks.
Tensor Correction(const TensorArg& beta, const Tensor& step) {
  return 1.0 - (beta.is_tensor() ? pow(beta.tensor(), step) : pow(beta.scalar(), step));
}

/// The first moment, whose beta is the group's momentum.
Tensor& FirstMoment(Update& u) {
  Tensor& average = u.state["exp_avg"];
  return average.copy_(average * u.momentum + u.grad * (1.0 - u.momentum));
}

void DecayWeights(double weight_decay, Update& u) {
  if (weight_decay != 0) u.param.mul_(1.0 - u.lr * weight_decay);
}

StateDict Zeros(const Tensor& param, std::initializer_list<const char*> names) {
  StateDict state;
  for (const char* name : names) state[name] = zeros_like(param);
  return state;
}

// ---- SGD

StateDict NewState(const SGDOptions& o, const Tensor& param) {
  if (o.nesterov && (o.momentum <= 0 || o.dampening != 0)) {
    Throw(ErrorCode::kValue, "SGD: nesterov needs a momentum above 0 and a dampening of 0");
  }
  return o.momentum != 0 ? Zeros(param, {"momentum_buffer"}) : StateDict();
}

void Apply(const SGDOptions& o, Update& u) {
  PrepareGrad(o, u);
  if (o.momentum != 0) {
    Tensor& buffer = u.state["momentum_buffer"];
    // The first gradient is not dampened.
    Tensor fresh = o.dampening == 0 ? u.grad : u.grad * where(u.step.gt(1), 1 - o.dampening, 1.0);
    buffer.copy_(buffer * u.momentum + fresh);
    u.grad = o.nesterov ? u.grad + buffer * u.momentum : buffer;
  }
  u.param.sub_(u.grad * u.lr);
}

// ---- Adam and its relatives

template <class Options>
StateDict NewAdamState(const Options& o, const Tensor& param) {
  StateDict state = Zeros(param, {"exp_avg", "exp_avg_sq"});
  if (o.amsgrad) state["max_exp_avg_sq"] = zeros_like(param);
  return state;
}
StateDict NewState(const AdamOptions& o, const Tensor& param) { return NewAdamState(o, param); }
StateDict NewState(const AdamWOptions& o, const Tensor& param) { return NewAdamState(o, param); }

template <class Options>
void AdamStep(const Options& o, Update& u) {
  Tensor& first = FirstMoment(u);
  Tensor second = Average(u.state["exp_avg_sq"], square(u.grad), o.beta2);
  if (o.amsgrad) {
    Tensor& largest = u.state["max_exp_avg_sq"];
    second = largest.copy_(maximum(largest, second));
  }
  Tensor divisor = sqrt(second) / sqrt(Correction(o.beta2, u.step)) + o.eps;
  u.param.sub_(first / divisor * (u.lr / Correction(u.momentum, u.step)));
}

void Apply(const AdamOptions& o, Update& u) {
  PrepareGrad(o, u);
  AdamStep(o, u);
}

void Apply(const AdamWOptions& o, Update& u) {
  if (o.maximize) u.grad = -u.grad;
  DecayWeights(o.weight_decay, u);
  AdamStep(o, u);
}

StateDict NewState(const AdamaxOptions&, const Tensor& param) {
  return Zeros(param, {"exp_avg", "exp_inf"});
}

void Apply(const AdamaxOptions& o, Update& u) {
  PrepareGrad(o, u);
  Tensor& first = FirstMoment(u);
  Tensor& largest = u.state["exp_inf"];
  largest.copy_(maximum(largest * o.beta2, abs(u.grad) + o.eps));
  u.param.sub_(first / largest * (u.lr / Correction(u.momentum, u.step)));
}

StateDict NewState(const NAdamOptions&, const Tensor& param) {
  StateDict state = Zeros(param, {"exp_avg", "exp_avg_sq"});
  state["mu_product"] = tensor(1.0, DType::kF64, param.device());
  return state;
}

void Apply(const NAdamOptions& o, Update& u) {
  PrepareGrad(o, u);
  auto momentum_at = [&](const Tensor& step) {
    return u.momentum * (1.0 - 0.5 * pow(0.96, step * o.momentum_decay));
  };
  Tensor mu = momentum_at(u.step), mu_next = momentum_at(u.step + 1.0);
  Tensor& product = u.state["mu_product"];
  product.mul_(mu);
  Tensor& first = FirstMoment(u);
  Tensor second = Average(u.state["exp_avg_sq"], square(u.grad), o.beta2);
  Tensor divisor = sqrt(second / Correction(o.beta2, u.step)) + o.eps;
  u.param.sub_(u.grad / divisor * (u.lr * (1.0 - mu) / (1.0 - product)));
  u.param.sub_(first / divisor * (u.lr * mu_next / (1.0 - product * mu_next)));
}

StateDict NewState(const RAdamOptions&, const Tensor& param) {
  return Zeros(param, {"exp_avg", "exp_avg_sq"});
}

void Apply(const RAdamOptions& o, Update& u) {
  PrepareGrad(o, u);
  Tensor& first = FirstMoment(u);
  Tensor second = Average(u.state["exp_avg_sq"], square(u.grad), o.beta2);
  Tensor correction = Correction(o.beta2, u.step);
  double length_limit = 2 / (1 - o.beta2) - 1;
  Tensor length = length_limit - 2.0 * u.step * (1.0 - correction) / correction;
  Tensor rectification = sqrt((length - 4.0) * (length - 2.0) * length_limit /
                              ((length_limit - 4) * (length_limit - 2) * length));
  Tensor adaptive = sqrt(correction) * rectification / (sqrt(second) + o.eps);
  // While the average is too short its variance is not to be trusted.
  Tensor scale = where(length.gt(5), adaptive, ones_like(adaptive));
  u.param.sub_(first * (u.lr / Correction(u.momentum, u.step)) * scale);
}

// ---- Others

StateDict NewState(const RMSpropOptions& o, const Tensor& param) {
  StateDict state = Zeros(param, {"square_avg"});
  if (o.momentum > 0) state["momentum_buffer"] = zeros_like(param);
  if (o.centered) state["grad_avg"] = zeros_like(param);
  return state;
}

void Apply(const RMSpropOptions& o, Update& u) {
  PrepareGrad(o, u);
  Tensor average = Average(u.state["square_avg"], square(u.grad), o.alpha);
  if (o.centered) average = average - square(Average(u.state["grad_avg"], u.grad, o.alpha));
  Tensor scaled = u.grad / (sqrt(average) + o.eps);
  if (o.momentum > 0) {
    Tensor& buffer = u.state["momentum_buffer"];
    scaled = buffer.copy_(buffer * u.momentum + scaled);
  }
  u.param.sub_(scaled * u.lr);
}

StateDict NewState(const AdagradOptions& o, const Tensor& param) {
  return {{"sum", full_like(param, o.initial_accumulator_value)}};
}

void Apply(const AdagradOptions& o, Update& u) {
  PrepareGrad(o, u);
  Tensor& sum = u.state["sum"];
  sum.add_(square(u.grad));
  u.param.sub_(u.grad / (sqrt(sum) + o.eps) * (u.lr / (1.0 + (u.step - 1.0) * o.lr_decay)));
}

StateDict NewState(const AdadeltaOptions&, const Tensor& param) {
  return Zeros(param, {"square_avg", "acc_delta"});
}

void Apply(const AdadeltaOptions& o, Update& u) {
  PrepareGrad(o, u);
  Tensor average = Average(u.state["square_avg"], square(u.grad), o.rho);
  Tensor& moved = u.state["acc_delta"];
  Tensor delta = sqrt(moved + o.eps) / sqrt(average + o.eps) * u.grad;
  Average(moved, square(delta), o.rho);
  u.param.sub_(delta * u.lr);
}

StateDict NewState(const LionOptions&, const Tensor& param) { return Zeros(param, {"exp_avg"}); }

void Apply(const LionOptions& o, Update& u) {
  DecayWeights(o.weight_decay, u);
  Tensor& average = u.state["exp_avg"];
  Tensor direction = sign(average * u.momentum + u.grad * (1.0 - u.momentum));
  Average(average, u.grad, o.beta2);
  u.param.sub_(direction * u.lr);
}

template <class Options>
double MomentumOf(const Options& options) {
  if constexpr (requires { options.momentum; }) {
    return options.momentum;
  } else if constexpr (requires { options.beta1; }) {
    return options.beta1;
  } else {
    return 0;
  }
}

/// Every number an option holds is one that makes sense.
template <class Options>
void CheckOptions(const Options& o) {
  auto check = [](const char* name, double value, double limit) {
    if (!(value >= 0 && value < limit)) {
      Throw(ErrorCode::kValue, "optimizer: {} is {}, expected at least 0{}", name, value,
            limit == 1 ? " and below 1" : "");
    }
  };
  constexpr double kNone = std::numeric_limits<double>::infinity();
  check("lr", o.lr, kNone);
  check("weight_decay", o.weight_decay, kNone);
  if constexpr (requires { o.eps; }) check("eps", o.eps, kNone);
  if constexpr (requires { o.momentum; }) check("momentum", o.momentum, kNone);
  if constexpr (requires { o.alpha; }) check("alpha", o.alpha, kNone);
  if constexpr (requires { o.beta1; }) check("beta1", o.beta1, 1);
  if constexpr (requires { o.beta2; }) check("beta2", o.beta2, 1);
  if constexpr (requires { o.lr_decay; }) check("lr_decay", o.lr_decay, kNone);
  if constexpr (requires { o.rho; }) check("rho", o.rho, kNone);
}

}  // namespace

template <class Options>
Rule<Options>::Rule(std::vector<Tensor> params, Options options)
    : Rule(std::vector<Group<Options>>{{std::move(params), options}}) {}

template <class Options>
Rule<Options>::Rule(std::vector<Group<Options>> groups) {
  for (Group<Options>& group : groups) {
    CheckOptions(group.options);
    int number = this->groups();
    AddGroup(group.params, group.options.lr, MomentumOf(group.options));
    options_.push_back(group.options);
    Tensor step = tensor(0.0, DType::kF64, group.params[0].device());
    NoGradGuard no_grad;
    for (const Tensor& param : group.params) {
      slots_.push_back({param, number, step, NewState(group.options, param)});
    }
  }
}

/// Adds one to the counts of the parameters that have gradients. Where only some of those that
/// share a count have one, these get a count of their own.
template <class Options>
void Rule<Options>::CountSteps() {
  struct Count {
    bool all_move = true;
    Tensor moved;
  };
  std::map<int64_t, Count> counts;
  for (const Slot& slot : slots_) counts[slot.step.id()].all_move &= slot.param.grad().defined();
  for (Slot& slot : slots_) {
    if (!slot.param.grad().defined()) continue;
    Count& count = counts[slot.step.id()];
    if (!count.moved.defined()) {
      count.moved = count.all_move ? slot.step.add_(1.0) : slot.step + 1.0;
    }
    slot.step = count.moved;
  }
}

template <class Options>
void Rule<Options>::step() {
  NoGradGuard no_grad;
  CountSteps();
  for (Slot& slot : slots_) {
    Tensor grad = slot.param.grad();
    if (!grad.defined()) continue;
    const ParamGroup& group = GroupAt(slot.group);
    Update update{slot.param, grad,      group.lr.tensor(), group.momentum.tensor(),
                  slot.step,  slot.state};
    Apply(options_[slot.group], update);
  }
}

template <class Options>
StateDict Rule<Options>::state_dict() const {
  StateDict state = Optimizer::state_dict();
  for (size_t i = 0; i < slots_.size(); ++i) {
    state[fmt::format("{}.step", i)] = slots_[i].step;
    for (const auto& [name, tensor] : slots_[i].state) {
      state[fmt::format("{}.{}", i, name)] = tensor;
    }
  }
  return state;
}

template <class Options>
void Rule<Options>::load_state_dict(const StateDict& state) {
  // Counts that differ must not share a tensor; where they agree the handles stay, which compiled
  // functions hold.
  std::vector<Tensor> before;
  std::map<std::pair<int64_t, double>, Tensor> counts;  // by tensor and count
  std::set<int64_t> seen;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Tensor& step = slots_[i].step;
    before.push_back(step);
    auto given = state.find(fmt::format("{}.step", i));
    if (given == state.end() || given->second.numel() != 1) continue;  // refused below
    auto [count, fresh] =
        counts.try_emplace({step.id(), given->second.template item<double>()}, step);
    if (fresh && !seen.insert(step.id()).second) count->second = step.clone();
    step = count->second;
  }
  try {
    Optimizer::load_state_dict(state);
  } catch (...) {
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].step = before[i];
    throw;
  }
}

template class Rule<SGDOptions>;
template class Rule<AdamOptions>;
template class Rule<AdamWOptions>;
template class Rule<AdamaxOptions>;
template class Rule<NAdamOptions>;
template class Rule<RAdamOptions>;
template class Rule<RMSpropOptions>;
template class Rule<AdagradOptions>;
template class Rule<AdadeltaOptions>;
template class Rule<LionOptions>;

}  // namespace hammock::optim
