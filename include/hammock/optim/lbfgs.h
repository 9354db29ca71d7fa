#pragma once
/// L-BFGS: a quasi-Newton method for problems without noise. Each step evaluates the loss several
/// times and reads numbers, so it computes at once.
///
///   optim::LBFGS optimizer(params, {.line_search = true});
///   optimizer.step([&] {
///     optimizer.zero_grad();
///     Tensor loss = Loss();
///     loss.backward();
///     return loss;
///   });

#include <functional>
#include <optional>
#include <vector>

#include "hammock/optim/optimizer.h"

namespace hammock::optim {

struct LBFGSOptions {
  double lr = 1;
  int64_t max_iter = 20;
  std::optional<int64_t> max_eval = std::nullopt;  ///< max_iter * 5 / 4 if not given
  double tolerance_grad = 1e-7, tolerance_change = 1e-9;
  int64_t history_size = 100;
  bool line_search = false;  ///< a step length that meets the strong Wolfe conditions
};

class HAMMOCK_API LBFGS : public Optimizer {
 public:
  explicit LBFGS(std::vector<Tensor> params, LBFGSOptions options = {},
                 Location at = Location::current());

  /// Up to `max_iter` iterations. `closure` zeroes the gradients, computes the loss, calls
  /// `backward` and returns the loss. Returns the loss before the step. If it throws, parameters
  /// and optimiser are as they were.
  Tensor step(const std::function<Tensor()>& closure, Location at = Location::current());

  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state, Location at = Location::current()) override;
  StateShapes ExpectedState(const StateShapes& given) const override;

 private:
  /// The loss somewhere along a direction, and its slope there.
  struct Point {
    double length, loss, slope;
    Tensor grad;
  };
  struct Pair {
    Tensor grad_change, step;
    double inverse_product;
  };
  /// The state after the iterations so far.
  struct Progress {
    int64_t iterations = 0;
    Tensor direction, previous_grad;
    double length = 0;          // of the last step, in directions
    double curvature = 1;       // the scale of the first estimate
    std::vector<Pair> history;  // oldest first
  };
  Tensor Iterate(const std::function<Tensor()>& closure);
  Tensor FlatGrad() const;
  void Move(const Tensor& direction, double length);
  void Remember(const Tensor& grad);
  Tensor Direction(const Tensor& grad) const;
  Point Search(const std::function<Point(double)>& evaluate, Point start, double length,
               double largest_change) const;

  LBFGSOptions options_;
  Progress progress_;
};

}  // namespace hammock::optim
