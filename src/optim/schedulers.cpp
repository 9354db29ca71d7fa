#include "hammock/optim/schedulers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/throw.h"
#include "hammock/ops.h"

namespace hammock::optim {
namespace {

void CheckPositive(const char* what, double value) {
  if (!(value > 0)) Throw(ErrorCode::kValue, "{} is {}, expected more than 0", what, value);
}

/// From `from` to `to` as `part` goes from 0 to 1, by half a cosine.
double Cosine(double from, double to, double part) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace

Scheduler::Scheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (int i = 0; i < optimizer.groups(); ++i) base_lrs_.push_back(optimizer.lr(i));
}

Scheduler::~Scheduler() = default;

void Scheduler::SetBaseLrs(const std::vector<double>& lrs) { base_lrs_ = lrs; }

void Scheduler::set_last_step(int64_t step, Location at) {
  LocationScope scope(at);
  if (step < 0) Throw(ErrorCode::kValue, "schedule: step {} is below 0", step);
  for (int i = 0; i < optimizer_.groups(); ++i) optimizer_.set_lr(i, LrAt(step, i));
  SetOthers(step);
  last_step_ = step;
}

std::vector<double> Scheduler::last_lr() const {
  std::vector<double> lrs;
  for (int i = 0; i < optimizer_.groups(); ++i) lrs.push_back(optimizer_.lr(i));
  return lrs;
}

StateDict Scheduler::state_dict() const {
  return {{"last_step", tensor(last_step_)}, {"base_lrs", tensor(base_lrs_, DType::kF64)}};
}

void Scheduler::load_state_dict(const StateDict& state, Location at) {
  LocationScope scope(at);
  StateDict own = state_dict();
  CopyState(own, state, "schedule state");
  last_step_ = own["last_step"].item<int64_t>();
  SetBaseLrs(own["base_lrs"].to_vector<double>());
}

// ---- Factors

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor, Location at)
    : Scheduler(optimizer), factor_(std::move(factor)) {
  LocationScope scope(at);
  if (!factor_) Throw(ErrorCode::kValue, "LambdaLR: the function is empty");
  set_last_step(0);
}

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma, Location at)
    : LambdaLR(
          optimizer,
          [=](int64_t step) {
            CheckPositive("StepLR: step_size", static_cast<double>(step_size));
            return std::pow(gamma, static_cast<double>(step / step_size));
          },
          at) {}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma,
                         Location at)
    : LambdaLR(
          optimizer,
          [=](int64_t step) {
            auto passed = std::count_if(milestones.begin(), milestones.end(),
                                        [&](int64_t milestone) { return milestone <= step; });
            return std::pow(gamma, static_cast<double>(passed));
          },
          at) {}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma, Location at)
    : LambdaLR(
          optimizer, [=](int64_t step) { return std::pow(gamma, static_cast<double>(step)); }, at) {
}

LinearLR::LinearLR(Optimizer& optimizer, LinearOptions options, Location at)
    : LambdaLR(
          optimizer,
          [=](int64_t step) {
            CheckPositive("LinearLR: start_factor", options.start_factor);
            CheckPositive("LinearLR: total_iters", static_cast<double>(options.total_iters));
            double part = static_cast<double>(std::min(step, options.total_iters)) /
                          static_cast<double>(options.total_iters);
            return options.start_factor + (options.end_factor - options.start_factor) * part;
          },
          at) {}

// ---- Cosines

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, CosineOptions options, Location at)
    : Scheduler(optimizer), options_(options) {
  LocationScope scope(at);
  CheckPositive("CosineAnnealingLR: t_max", static_cast<double>(options.t_max));
}

double CosineAnnealingLR::LrAt(int64_t step, int group) const {
  return Cosine(base_lr(group), options_.eta_min,
                static_cast<double>(step) / static_cast<double>(options_.t_max));
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer,
                                                         WarmRestartsOptions options, Location at)
    : Scheduler(optimizer), options_(options) {
  LocationScope scope(at);
  CheckPositive("CosineAnnealingWarmRestarts: t_0", static_cast<double>(options.t_0));
  CheckPositive("CosineAnnealingWarmRestarts: t_mult", static_cast<double>(options.t_mult));
}

double CosineAnnealingWarmRestarts::LrAt(int64_t step, int group) const {
  int64_t length = options_.t_0;
  if (options_.t_mult == 1) step %= length;
  while (step >= length) {
    step -= length;
    length *= options_.t_mult;
  }
  return Cosine(base_lr(group), options_.eta_min,
                static_cast<double>(step) / static_cast<double>(length));
}

// ---- One cycle

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleOptions options, Location at)
    : Scheduler(optimizer), options_(options) {
  LocationScope scope(at);
  CheckPositive("OneCycleLR: max_lr", options.max_lr);
  CheckPositive("OneCycleLR: total_steps", static_cast<double>(options.total_steps));
  if (!(options.pct_start >= 0 && options.pct_start <= 1)) {
    Throw(ErrorCode::kValue, "OneCycleLR: pct_start is {}, expected 0 to 1", options.pct_start);
  }
  double top = options.max_lr, first = top / options.div_factor;
  double last = first / options.final_div_factor;
  double low = options.base_momentum, high = options.max_momentum;
  auto total = static_cast<double>(options.total_steps);
  double risen = options.pct_start * total - 1;
  phases_.push_back({risen, first, top, high, low});
  if (options.three_phase) {
    phases_.push_back({2 * options.pct_start * total - 2, top, first, low, high});
    phases_.push_back({total - 1, first, last, high, high});
  } else {
    phases_.push_back({total - 1, top, last, low, high});
  }
  set_last_step(0);
}

double OneCycleLR::At(int64_t step, double Phase::*from, double Phase::*to) const {
  // The last step of a loop of `total_steps` is taken too, as in PyTorch.
  if (step > options_.total_steps) {
    Throw(ErrorCode::kValue,
          "OneCycleLR: step {} of {} asked for; total_steps counts all calls of step", step,
          options_.total_steps);
  }
  double start = 0;
  for (const Phase& phase : phases_) {
    if (static_cast<double>(step) <= phase.end || &phase == &phases_.back()) {
      double part = (static_cast<double>(step) - start) / (phase.end - start);
      if (options_.linear) return phase.*from + (phase.*to - phase.*from) * part;
      return Cosine(phase.*from, phase.*to, part);
    }
    start = phase.end;
  }
  Throw(ErrorCode::kInternal, "OneCycleLR: no phase holds step {}", step);
}

double OneCycleLR::LrAt(int64_t step, int) const {
  return At(step, &Phase::lr_from, &Phase::lr_to);
}

void OneCycleLR::SetOthers(int64_t step) {
  if (!options_.cycle_momentum) return;
  for (int i = 0; i < optimizer().groups(); ++i) {
    if (optimizer().momentum(i) == 0) continue;
    optimizer().set_momentum(i, At(step, &Phase::momentum_from, &Phase::momentum_to));
  }
}

// ---- One after another

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<std::unique_ptr<Scheduler>> schedules,
                           std::vector<int64_t> milestones, Location at)
    : Scheduler(optimizer), schedules_(std::move(schedules)), milestones_(std::move(milestones)) {
  LocationScope scope(at);
  if (schedules_.empty() || schedules_.size() != milestones_.size() + 1 ||
      !std::is_sorted(milestones_.begin(), milestones_.end())) {
    Throw(ErrorCode::kValue,
          "SequentialLR: {} schedules and {} milestones; expected one schedule more than "
          "milestones, which ascend",
          schedules_.size(), milestones_.size());
  }
  // Constructors of the schedules have changed the rates too early; this undoes it.
  SequentialLR::SetBaseLrs(std::vector<double>(schedules_[0]->base_lrs_));
  set_last_step(0);
}

void SequentialLR::SetBaseLrs(const std::vector<double>& lrs) {
  Scheduler::SetBaseLrs(lrs);
  for (auto& schedule : schedules_) schedule->SetBaseLrs(lrs);
}

std::pair<Scheduler*, int64_t> SequentialLR::At(int64_t step) const {
  auto next = std::upper_bound(milestones_.begin(), milestones_.end(), step);
  int64_t start = next == milestones_.begin() ? 0 : *(next - 1);
  return {schedules_[next - milestones_.begin()].get(), step - start};
}

double SequentialLR::LrAt(int64_t step, int group) const {
  auto [schedule, own_step] = At(step);
  return schedule->LrAt(own_step, group);
}

void SequentialLR::SetOthers(int64_t step) {
  auto [schedule, own_step] = At(step);
  schedule->SetOthers(own_step);
}

// ---- Plateau

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options, Location at)
    : optimizer_(optimizer), options_(options) {
  LocationScope scope(at);
  if (!(options.factor < 1)) {
    Throw(ErrorCode::kValue, "ReduceLROnPlateau: factor is {}, expected below 1", options.factor);
  }
  double worst = std::numeric_limits<double>::infinity();
  state_.best = options.maximize ? -worst : worst;
}

bool ReduceLROnPlateau::IsBetter(double metric) const {
  double margin = options_.threshold;
  if (options_.threshold_is_relative) {
    return options_.maximize ? metric > state_.best * (1 + margin)
                             : metric < state_.best * (1 - margin);
  }
  return options_.maximize ? metric > state_.best + margin : metric < state_.best - margin;
}

void ReduceLROnPlateau::step(double metric, Location at) {
  LocationScope scope(at);
  if (IsBetter(metric)) {
    state_.best = metric;
    state_.bad_steps = 0;
  } else {
    ++state_.bad_steps;
  }
  if (state_.cooldown_left > 0) {
    --state_.cooldown_left;
    state_.bad_steps = 0;
  }
  if (state_.bad_steps <= options_.patience) return;
  for (int i = 0; i < optimizer_.groups(); ++i) {
    double lower = std::max(optimizer_.lr(i) * options_.factor, options_.min_lr);
    if (optimizer_.lr(i) - lower > options_.eps) optimizer_.set_lr(i, lower);
  }
  state_.cooldown_left = options_.cooldown;
  state_.bad_steps = 0;
}

StateDict ReduceLROnPlateau::state_dict() const {
  return {{"best", tensor(state_.best, DType::kF64)},
          {"bad_steps", tensor(state_.bad_steps)},
          {"cooldown_left", tensor(state_.cooldown_left)}};
}

void ReduceLROnPlateau::load_state_dict(const StateDict& state, Location at) {
  LocationScope scope(at);
  StateDict own = state_dict();
  CopyState(own, state, "ReduceLROnPlateau state");
  state_ = {own["best"].item<double>(), own["bad_steps"].item<int64_t>(),
            own["cooldown_left"].item<int64_t>()};
}

}  // namespace hammock::optim
