#pragma once
/// Learning rates that change as training goes on. Names, defaults and curves are PyTorch's.
///
///   optim::CosineAnnealingLR schedule(optimizer, {.t_max = 100});
///   for (int epoch = 0; epoch < 100; ++epoch) { Train(); schedule.step(); }
///
/// A schedule is a function of the number of steps and of the rates that the optimiser had when the
/// schedule was made. It must not outlive its optimiser.

#include <functional>
#include <memory>
#include <vector>

#include "hammock/export.h"
#include "hammock/optim/optimizer.h"

namespace hammock::optim {

class HAMMOCK_API Scheduler {
 public:
  virtual ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Sets the rates of the next step.
  void step(Location at = Location::current()) { set_last_step(last_step_ + 1, at); }
  int64_t last_step() const { return last_step_; }
  /// Goes to any step, as a resumed run does.
  void set_last_step(int64_t step, Location at = Location::current());
  std::vector<double> last_lr() const;

  /// The step and the rates that it began with. Loading them leaves the optimiser alone, whose own
  /// state has the present rates.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state, Location at = Location::current());

 protected:
  explicit Scheduler(Optimizer& optimizer);
  Optimizer& optimizer() const { return optimizer_; }
  double base_lr(int group) const { return base_lrs_[group]; }

 private:
  friend class SequentialLR;
  virtual double LrAt(int64_t step, int group) const = 0;
  virtual void SetOthers(int64_t) {}
  virtual void SetBaseLrs(const std::vector<double>& lrs);

  Optimizer& optimizer_;
  std::vector<double> base_lrs_;
  int64_t last_step_ = 0;
};

/// The base rate times `factor(step)`.
class HAMMOCK_API LambdaLR : public Scheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(int64_t step)> factor,
           Location at = Location::current());

 private:
  double LrAt(int64_t step, int group) const override { return base_lr(group) * factor_(step); }
  std::function<double(int64_t)> factor_;
};

/// Times `gamma` every `step_size` steps.
class HAMMOCK_API StepLR : public LambdaLR {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1,
         Location at = Location::current());
};

/// Times `gamma` at each of the milestones.
class HAMMOCK_API MultiStepLR : public LambdaLR {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1,
              Location at = Location::current());
};

/// Times `gamma` at every step.
class HAMMOCK_API ExponentialLR : public LambdaLR {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma, Location at = Location::current());
};

struct LinearOptions {
  double start_factor = 1.0 / 3, end_factor = 1.0;
  int64_t total_iters = 5;
};
/// From one factor to another in equal parts: a linear warm-up.
class HAMMOCK_API LinearLR : public LambdaLR {
 public:
  explicit LinearLR(Optimizer& optimizer, LinearOptions options = {},
                    Location at = Location::current());
};

struct CosineOptions {
  int64_t t_max;
  double eta_min = 0;
};
/// Half a cosine from the base rate down to `eta_min` in `t_max` steps, and up again.
class HAMMOCK_API CosineAnnealingLR : public Scheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, CosineOptions options, Location at = Location::current());

 private:
  double LrAt(int64_t step, int group) const override;
  CosineOptions options_;
};

struct WarmRestartsOptions {
  int64_t t_0;
  int64_t t_mult = 1;
  double eta_min = 0;
};
/// Half cosines one after another, each `t_mult` times as long as the one before.
class HAMMOCK_API CosineAnnealingWarmRestarts : public Scheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, WarmRestartsOptions options,
                              Location at = Location::current());

 private:
  double LrAt(int64_t step, int group) const override;
  WarmRestartsOptions options_;
};

struct OneCycleOptions {
  double max_lr;
  int64_t total_steps;
  double pct_start = 0.3;
  bool linear = false;  ///< instead of cosine
  bool cycle_momentum = true;
  double base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;
};
/// Up to `max_lr` and down again, with the momentum the other way round. Sets the rates at once.
class HAMMOCK_API OneCycleLR : public Scheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleOptions options, Location at = Location::current());

 private:
  struct Phase {
    double end;
    double lr_from, lr_to, momentum_from, momentum_to;
  };
  double LrAt(int64_t step, int group) const override;
  void SetOthers(int64_t step) override;
  double At(int64_t step, double Phase::*from, double Phase::*to) const;

  OneCycleOptions options_;
  std::vector<Phase> phases_;
};

/// One schedule after another: number i+1 begins, at its own step 0, at milestone i.
class HAMMOCK_API SequentialLR : public Scheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<std::unique_ptr<Scheduler>> schedules,
               std::vector<int64_t> milestones, Location at = Location::current());

 private:
  double LrAt(int64_t step, int group) const override;
  void SetOthers(int64_t step) override;
  void SetBaseLrs(const std::vector<double>& lrs) override;
  std::pair<Scheduler*, int64_t> At(int64_t step) const;

  std::vector<std::unique_ptr<Scheduler>> schedules_;
  std::vector<int64_t> milestones_;
};

struct PlateauOptions {
  bool maximize = false;  ///< the metric is better when it is larger
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  bool threshold_is_relative = true;
  int64_t cooldown = 0;
  double min_lr = 0, eps = 1e-8;
};
/// Lowers the rate when a metric has not become better for more than `patience` steps.
class HAMMOCK_API ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options = {},
                             Location at = Location::current());
  void step(double metric, Location at = Location::current());

  /// The best metric and what has happened since. The optimiser's own state has the present rates.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state, Location at = Location::current());

 private:
  struct State {
    double best;
    int64_t bad_steps = 0, cooldown_left = 0;
  };
  bool IsBetter(double metric) const;
  Optimizer& optimizer_;
  PlateauOptions options_;
  State state_;
};

}  // namespace hammock::optim
