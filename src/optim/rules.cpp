#include "hammock/optim/rules.h"

#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "hammock/sparse.h"
#include "ops/nn/optimizer_updates.h"
#include "optim/sparse_updates.h"
#include "runtime/step/budget.h"
#include "trace/apply.h"

namespace hammock::optim {
namespace {

/// An operand of an update behind the learning rate.
struct Operand {
  enum Kind { kAbsent, kMomentum, kStep, kNumber };
  Kind kind = kAbsent;
  double number = 0;
};
constexpr Operand kMomentum{Operand::kMomentum}, kStep{Operand::kStep}, kAbsent{};

Operand Number(double value) { return {Operand::kNumber, value}; }
/// A decay of zero is none.
Operand NonZero(double value) { return value != 0 ? Number(value) : kAbsent; }
Operand If(bool wanted, Operand operand) { return wanted ? operand : kAbsent; }

/// The call that updates a parameter: its record, the operands behind `lr` in the order of its
/// schema, the attributes, and the names of the state.
struct Recipe {
  const OpDef& op;
  std::vector<Operand> operands;
  std::vector<Attr> attrs;
  std::vector<const char*> state;
  SparseGrads sparse = SparseGrads::kRefused;
};

Recipe RecipeOf(const SGDOptions& o) {
  if (o.nesterov && (o.momentum <= 0 || o.dampening != 0)) {
    Throw(ErrorCode::kValue, "SGD: nesterov needs a momentum above 0 and a dampening of 0");
  }
  bool averages = o.momentum != 0, dampens = averages && o.dampening != 0;
  Recipe recipe{ops::kSgdUpdate,
                {If(averages, kMomentum), If(dampens, kStep), NonZero(o.weight_decay),
                 If(dampens, Number(o.dampening))},
                {o.nesterov, o.maximize},
                {}};
  if (averages) recipe.state.push_back("momentum_buffer");
  if (!averages && o.weight_decay == 0) recipe.sparse = SparseGrads::kTaken;
  return recipe;
}

template <class Options>
Recipe AdamRecipe(const Options& o, bool decoupled) {
  Recipe recipe{ops::kAdamUpdate,
                {kMomentum, kStep, Number(o.beta2), Number(o.eps), NonZero(o.weight_decay)},
                {decoupled, o.maximize},
                {"exp_avg", "exp_avg_sq"}};
  if (o.amsgrad) recipe.state.push_back("max_exp_avg_sq");
  return recipe;
}
Recipe RecipeOf(const AdamOptions& o) { return AdamRecipe(o, false); }
Recipe RecipeOf(const AdamWOptions& o) { return AdamRecipe(o, true); }

Recipe RecipeOf(const SparseAdamOptions& o) {
  return {ops::kAdamUpdate,
          {kMomentum, kStep, Number(o.beta2), Number(o.eps), kAbsent},
          {false, o.maximize},
          {"exp_avg", "exp_avg_sq"},
          SparseGrads::kOnly};
}

Recipe RecipeOf(const AdamaxOptions& o) {
  return {ops::kAdamaxUpdate,
          {kMomentum, kStep, Number(o.beta2), Number(o.eps), NonZero(o.weight_decay)},
          {o.maximize},
          {"exp_avg", "exp_inf"}};
}

Recipe RecipeOf(const NAdamOptions& o) {
  return {ops::kNadamUpdate,
          {kMomentum, kStep, Number(o.beta2), Number(o.eps), NonZero(o.weight_decay),
           Number(o.momentum_decay)},
          {false},
          {"exp_avg", "exp_avg_sq", "mu_product"}};
}

Recipe RecipeOf(const RAdamOptions& o) {
  return {ops::kRadamUpdate,
          {kMomentum, kStep, Number(o.beta2), Number(o.eps), NonZero(o.weight_decay)},
          {false},
          {"exp_avg", "exp_avg_sq"}};
}

Recipe RecipeOf(const RMSpropOptions& o) {
  Recipe recipe{
      ops::kRmspropUpdate,
      {If(o.momentum > 0, kMomentum), Number(o.alpha), Number(o.eps), NonZero(o.weight_decay)},
      {o.centered, o.maximize},
      {"square_avg"}};
  if (o.centered) recipe.state.push_back("grad_avg");
  if (o.momentum > 0) recipe.state.push_back("momentum_buffer");
  return recipe;
}

Recipe RecipeOf(const AdagradOptions& o) {
  return {ops::kAdagradUpdate,
          {kStep, Number(o.lr_decay), Number(o.eps), NonZero(o.weight_decay)},
          {o.maximize},
          {"sum"},
          o.weight_decay == 0 ? SparseGrads::kTaken : SparseGrads::kRefused};
}

Recipe RecipeOf(const AdadeltaOptions& o) {
  return {ops::kAdadeltaUpdate,
          {Number(o.rho), Number(o.eps), NonZero(o.weight_decay)},
          {o.maximize},
          {"square_avg", "acc_delta"}};
}

Recipe RecipeOf(const LionOptions& o) {
  return {ops::kLionUpdate, {kMomentum, Number(o.beta2), NonZero(o.weight_decay)}, {}, {"exp_avg"}};
}

/// The initial value of a state tensor.
template <class Options>
Tensor NewState(const Options& options, std::string_view name, const Tensor& param) {
  if (name == "mu_product") return tensor(1.0, DType::kF64, param.device());
  if constexpr (requires { options.initial_accumulator_value; }) {
    return full_like(param, options.initial_accumulator_value);
  }
  return zeros_like(param);
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
  if constexpr (requires { o.weight_decay; }) check("weight_decay", o.weight_decay, kNone);
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
Rule<Options>::Rule(std::vector<Tensor> params, Options options, Location at)
    : Rule(std::vector<Group<Options>>{{std::move(params), options}}, at) {}

template <class Options>
Rule<Options>::Rule(std::vector<Group<Options>> groups, Location at) {
  LocationScope scope(at);
  for (Group<Options>& group : groups) {
    CheckOptions(group.options);
    int number = this->groups();
    AddGroup(group.params, group.options.lr, MomentumOf(group.options));
    options_.push_back(group.options);
    Recipe recipe = RecipeOf(group.options);
    GroupUpdate update{&recipe.op,   {GroupAt(number).lr.tensor()}, recipe.attrs, -1, recipe.state,
                       recipe.sparse};
    for (const Operand& operand : recipe.operands) {
      // Numbers are operands too, the same for all parameters: new ones do not recompile.
      if (operand.kind == Operand::kStep)
        update.step_operand = static_cast<int>(update.operands.size());
      update.operands.push_back(
          operand.kind == Operand::kMomentum ? GroupAt(number).momentum.tensor()
          : operand.kind == Operand::kNumber ? Lift(operand.number, DType::kF64)
                                             : Tensor());
    }
    updates_.push_back(std::move(update));
    NoGradGuard no_grad;
    counts_.push_back(tensor(0.0, DType::kF64, group.params[0].device()));
    MarkState(counts_.back());
    for (const Tensor& param : group.params) {
      slots_.push_back({{param}, number, counts_.size() - 1});
      for (const char* name : recipe.state) {
        slots_.back().updated.push_back(NewState(group.options, name, param));
        MarkState(slots_.back().updated.back());
      }
    }
  }
}

/// Adds one to the counts of the parameters that have gradients. Where only some of those that
/// share a count have one, these get a count of their own.
void RuleOptimizer::CountSteps(const std::vector<Tensor>& grads) {
  std::vector<uint8_t> some(counts_.size()), all(counts_.size(), 1);
  for (size_t i = 0; i < slots_.size(); ++i) {
    (grads[i].defined() ? some : all)[slots_[i].count] = grads[i].defined();
  }
  std::vector<size_t> moved(counts_.size());
  for (size_t i = 0; i < moved.size(); ++i) {
    if (!some[i]) continue;
    moved[i] = i;
    if (!all[i]) {
      moved[i] = counts_.size();
      counts_.push_back(counts_[i].clone());
    }
    // In place also where the count is new, so that a step that fails does not count.
    counts_[moved[i]].add_(1.0);
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (grads[i].defined()) slots_[i].count = moved[slots_[i].count];
  }
}

/// The sparse gradient of a parameter, if it has one that its optimiser can take.
std::optional<SparseTensor> RuleOptimizer::SparseGradOf(size_t number, const Tensor& dense) const {
  const Tensor& param = slots_[number].updated[0];
  SparseGrads taken = updates_[slots_[number].group].sparse;
  std::optional<SparseTensor> sparse = sparse::grad(param);
  if (sparse && taken == SparseGrads::kRefused) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "optimizer: parameter {} has a sparse gradient; SparseAdam takes it, and "
                        "SGD without momentum and Adagrad, both without weight decay",
                        number);
  }
  if (dense.defined() && (sparse || taken == SparseGrads::kOnly)) {
    Throw(ErrorCode::kValue, "optimizer: parameter {} has a dense gradient {}", number,
          sparse ? "beside a sparse one" : "; SparseAdam takes sparse ones");
  }
  return sparse;
}

void RuleOptimizer::step(Location at) {
  LocationScope scope(at);
  NoGradGuard no_grad;
  std::vector<Tensor> grads;
  std::vector<std::optional<SparseTensor>> sparse;
  grads.reserve(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    grads.push_back(slots_[i].updated[0].grad());
    sparse.push_back(SparseGradOf(i, grads[i]));
    if (sparse[i]) grads[i] = sparse[i]->values();
  }
  CountSteps(grads);
  std::vector<const Tensor*> operands;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!grads[i].defined()) continue;
    Slot& slot = slots_[i];
    const GroupUpdate& update = updates_[slot.group];
    operands.assign({&slot.updated[0], &grads[i]});
    for (const Tensor& operand : update.operands) operands.push_back(&operand);
    if (update.step_operand >= 0) {
      operands[static_cast<size_t>(update.step_operand) + 2] = &counts_[slot.count];
    }
    if (sparse[i]) {
      UpdateRows(*update.op, *sparse[i], std::span<const Tensor* const>(operands).subspan(2),
                 update.attrs.back().boolean(), slot.updated);
      continue;
    }
    for (size_t k = 1; k < slot.updated.size(); ++k) operands.push_back(&slot.updated[k]);
    ApplyInto(*update.op, operands, update.attrs, slot.updated);
  }
  grads.clear();
  AtNaturalEnd(NaturalEnd::kOptimizerStep);
}

StateDict RuleOptimizer::state_dict() const {
  StateDict state = Optimizer::state_dict();
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    state[fmt::format("{}.step", i)] = counts_[slot.count];
    const GroupUpdate& update = updates_[slot.group];
    for (size_t k = 0; k < update.state_names.size(); ++k) {
      state[fmt::format("{}.{}", i, update.state_names[k])] = slot.updated[k + 1];
    }
  }
  return state;
}

std::vector<Tensor> RuleOptimizer::tensors() const {
  std::vector<Tensor> all;
  for (const Slot& slot : slots_) {
    all.insert(all.end(), slot.updated.begin(), slot.updated.end());
    all.push_back(counts_[slot.count]);
  }
  return all;
}

void RuleOptimizer::load_state_dict(const StateDict& state, Location at) {
  LocationScope scope(at);
  // Counts that differ must not share a tensor; where they agree the handles stay, which compiled
  // functions hold.
  std::vector<Slot> slots = slots_;
  std::vector<Tensor> counts = counts_;
  std::map<std::pair<size_t, double>, size_t> indices;  // by the count before and the new number
  std::set<size_t> seen;
  for (size_t i = 0; i < slots_.size(); ++i) {
    size_t before = slots_[i].count;
    auto given = state.find(fmt::format("{}.step", i));
    if (given == state.end() || given->second.numel() != 1) continue;  // refused below
    auto [index, fresh] = indices.try_emplace({before, given->second.item<double>()}, before);
    if (fresh && !seen.insert(before).second) {
      index->second = counts_.size();
      counts_.push_back(counts_[before].clone());
    }
    slots_[i].count = index->second;
  }
  try {
    Optimizer::load_state_dict(state);
  } catch (...) {
    slots_ = std::move(slots);
    counts_ = std::move(counts);
    throw;
  }
}

template class Rule<SGDOptions>;
template class Rule<AdamOptions>;
template class Rule<AdamWOptions>;
template class Rule<SparseAdamOptions>;
template class Rule<AdamaxOptions>;
template class Rule<NAdamOptions>;
template class Rule<RAdamOptions>;
template class Rule<RMSpropOptions>;
template class Rule<AdagradOptions>;
template class Rule<AdadeltaOptions>;
template class Rule<LionOptions>;

}  // namespace hammock::optim
