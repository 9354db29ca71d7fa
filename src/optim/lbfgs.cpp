#include "hammock/optim/lbfgs.h"

#include <algorithm>
#include <cmath>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/caller_scope.h"
#include "hammock/ir/node.h"
#include "hammock/ops.h"

namespace hammock::optim {
namespace {

constexpr double kSufficientDecrease = 1e-4, kSlopeReduction = 0.9;
constexpr int kMaxSearch = 25;

double Dot(const Tensor& a, const Tensor& b) { return sum(a * b).item<double>(); }
double Largest(const Tensor& x) { return x.numel() == 0 ? 0 : max(abs(x)).item<double>(); }

}  // namespace

LBFGS::LBFGS(std::vector<Tensor> params, LBFGSOptions options, Location at) : options_(options) {
  LocationScope scope(at);
  if (options.max_iter < 1 || options.history_size < 1) {
    Throw(ErrorCode::kValue, "LBFGS: max_iter is {} and history_size {}, expected at least 1",
          options.max_iter, options.history_size);
  }
  AddGroup(params, options.lr, 0);
}

Tensor LBFGS::FlatGrad() const {
  std::vector<Tensor> flat;
  for (const Tensor& param : params()) {
    flat.push_back(reshape(param.grad().defined() ? param.grad() : zeros_like(param), {-1}));
  }
  return cat(flat, 0).detach();
}

/// Adds `length` directions to the parameters.
void LBFGS::Move(const Tensor& direction, double length) {
  NoGradGuard no_grad;
  int64_t offset = 0;
  for (Tensor param : params()) {
    Tensor part = narrow(direction, 0, offset, param.numel());
    param.add_(reshape(part, param.sizes()) * length);
    offset += param.numel();
  }
}

/// Learns from the change of the gradient over the last step.
void LBFGS::Remember(const Tensor& grad) {
  Tensor change = grad - progress_.previous_grad;
  Tensor step = progress_.direction * progress_.length;
  double product = Dot(change, step);
  if (!(product > 1e-10)) return;
  if (static_cast<int64_t>(progress_.history.size()) == options_.history_size)
    progress_.history.erase(progress_.history.begin());
  progress_.history.push_back({change, step, 1 / product});
  progress_.curvature = product / Dot(change, change);
}

/// The estimate of the inverse Hessian times the downward gradient.
Tensor LBFGS::Direction(const Tensor& grad) const {
  Tensor result = -grad;
  std::vector<double> weights(progress_.history.size());
  for (size_t i = progress_.history.size(); i-- > 0;) {
    weights[i] = Dot(progress_.history[i].step, result) * progress_.history[i].inverse_product;
    result = result - progress_.history[i].grad_change * weights[i];
  }
  result = result * progress_.curvature;
  for (size_t i = 0; i < progress_.history.size(); ++i) {
    double back =
        Dot(progress_.history[i].grad_change, result) * progress_.history[i].inverse_product;
    result = result + progress_.history[i].step * (weights[i] - back);
  }
  return result;
}

Tensor LBFGS::step(const std::function<Tensor()>& closure, Location at) {
  CallerScope caller(at);
  if (!closure) Throw(ErrorCode::kValue, "LBFGS: the closure is empty");
  Progress before = progress_;
  std::vector<Tensor> values;
  for (const Tensor& param : params()) values.push_back(Tensor::FromValue(param.value()).detach());
  try {
    return Iterate(closure);
  } catch (...) {
    NoGradGuard no_grad;
    for (size_t i = 0; i < values.size(); ++i) Tensor(params()[i]).copy_(values[i]);
    progress_ = std::move(before);
    throw;
  }
}

Tensor LBFGS::Iterate(const std::function<Tensor()>& closure) {
  auto evaluate = [&] {
    EnableGradGuard enable;
    Tensor loss = closure();
    if (!loss.defined()) {
      Throw(ErrorCode::kUninitializedTensor,
            "LBFGS: the closure returned an undefined tensor; it returns the loss");
    }
    return loss;
  };
  Tensor first_loss = evaluate().detach();
  double loss = first_loss.item<double>();
  Tensor grad = FlatGrad();
  int64_t evaluations = 1;
  const int64_t max_evaluations = options_.max_eval.value_or(options_.max_iter * 5 / 4);
  if (Largest(grad) <= options_.tolerance_grad) return first_loss;

  for (int64_t i = 1; i <= options_.max_iter; ++i) {
    NoGradGuard no_grad;
    if (progress_.iterations > 0) Remember(grad);
    progress_.direction = progress_.iterations > 0 ? Direction(grad) : -grad;
    double length = lr();
    if (progress_.iterations == 0) length *= std::min(1.0, 1 / sum(abs(grad)).item<double>());
    ++progress_.iterations;
    progress_.previous_grad = grad;
    double slope = Dot(grad, progress_.direction);
    if (slope > -options_.tolerance_change) {
      progress_.length = 0;
      break;
    }
    double previous_loss = loss;
    double largest = Largest(progress_.direction);
    if (options_.line_search) {
      double moved = 0;
      auto at = [&](double where) {
        Move(progress_.direction, where - moved);
        moved = where;
        ++evaluations;
        double value = evaluate().item<double>();
        Tensor here = FlatGrad();
        return Point{where, value, Dot(here, progress_.direction), here};
      };
      Point found = Search(at, {0, loss, slope, grad}, length, largest);
      Move(progress_.direction, found.length - moved);
      length = found.length;
      loss = found.loss;
      grad = found.grad;
    } else {
      Move(progress_.direction, length);
      if (i < options_.max_iter) {
        loss = evaluate().item<double>();
        grad = FlatGrad();
        ++evaluations;
      }
    }
    progress_.length = length;
    if (evaluations >= max_evaluations || Largest(grad) <= options_.tolerance_grad ||
        largest * std::abs(length) <= options_.tolerance_change ||
        std::abs(loss - previous_loss) < options_.tolerance_change) {
      break;
    }
  }
  return first_loss;
}

namespace {

/// Where the cubic through two points with their slopes is least, within [low, high].
template <class Point>
double CubicMinimum(const Point& a, const Point& b, double low, double high) {
  const Point& left = a.length <= b.length ? a : b;
  const Point& right = a.length <= b.length ? b : a;
  double d1 =
      left.slope + right.slope - 3 * (left.loss - right.loss) / (left.length - right.length);
  double square = d1 * d1 - left.slope * right.slope;
  if (!(square >= 0)) return (low + high) / 2;
  double d2 = std::sqrt(square);
  double found = right.length - (right.length - left.length) *
                                    ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2));
  return std::clamp(found, low, high);
}

}  // namespace

/// A length that lowers the loss enough and flattens the slope enough. First goes on until such a
/// length is passed, then narrows the bracket by cubic interpolation.
LBFGS::Point LBFGS::Search(const std::function<Point(double)>& evaluate, Point start, double length,
                           double largest_change) const {
  auto too_high = [&](const Point& p) {
    return !(p.loss <= start.loss + kSufficientDecrease * p.length * start.slope);
  };
  auto flat_enough = [&](const Point& p) {
    return std::abs(p.slope) <= -kSlopeReduction * start.slope;
  };
  int turns = 0;
  Point previous = start, low, high;
  for (Point next = evaluate(length);; next = evaluate(length)) {
    if (too_high(next) || (turns > 0 && next.loss >= previous.loss)) {
      low = previous, high = next;
      break;
    }
    if (flat_enough(next)) return next;
    if (next.slope >= 0) {
      low = next, high = previous;
      break;
    }
    if (++turns == kMaxSearch) return next;
    length = CubicMinimum(previous, next, next.length + 0.01 * (next.length - previous.length),
                          next.length * 10);
    previous = next;
  }
  bool stuck = false;
  for (; turns < kMaxSearch; ++turns) {
    double width = std::abs(high.length - low.length);
    if (width * largest_change < options_.tolerance_change) break;
    double begin = std::min(low.length, high.length), end = begin + width;
    length = CubicMinimum(low, high, begin, end);
    // Too near an end twice in a row makes no progress.
    bool near_end = std::min(end - length, length - begin) < 0.1 * width;
    if (near_end && (stuck || length >= end || length <= begin)) {
      length = end - length < length - begin ? end - 0.1 * width : begin + 0.1 * width;
      near_end = false;
    }
    stuck = near_end;
    Point next = evaluate(length);
    if (too_high(next) || next.loss >= low.loss) {
      high = next;
      continue;
    }
    if (flat_enough(next)) return next;
    if (next.slope * (high.length - low.length) >= 0) high = low;
    low = next;
  }
  return low;
}

// ---- State

StateDict LBFGS::state_dict() const {
  StateDict state = Optimizer::state_dict();
  state["numbers"] = tensor(std::vector<double>{static_cast<double>(progress_.iterations),
                                                progress_.length, progress_.curvature});
  if (progress_.iterations == 0) return state;
  state["direction"] = progress_.direction;
  state["previous_grad"] = progress_.previous_grad;
  for (size_t i = 0; i < progress_.history.size(); ++i) {
    state[fmt::format("history.{}.grad_change", i)] = progress_.history[i].grad_change;
    state[fmt::format("history.{}.step", i)] = progress_.history[i].step;
  }
  return state;
}

StateShapes LBFGS::ExpectedState(const StateShapes& given) const {
  // The number of entries depends on how far the saved run was.
  StateShapes expected = ShapesOf(Optimizer::state_dict());
  expected["numbers"] = Shape(DType::kF64, {3});
  if (!given.contains("direction")) return expected;
  Shape flat = FlatGrad().shape();
  expected["direction"] = expected["previous_grad"] = flat;
  for (int64_t i = 0; given.contains(fmt::format("history.{}.step", i)); ++i) {
    expected[fmt::format("history.{}.grad_change", i)] = flat;
    expected[fmt::format("history.{}.step", i)] = flat;
  }
  return expected;
}

void LBFGS::load_state_dict(const StateDict& state, Location at) {
  LocationScope scope(at);
  StateDict expected = Optimizer::state_dict();
  Device device = params()[0].device();
  for (const auto& [name, shape] : ExpectedState(ShapesOf(state))) {
    if (!expected.contains(name)) expected[name] = zeros(shape.sizes(), shape.dtype(), device);
  }
  CopyState(expected, state, "LBFGS state");
  auto values = expected["numbers"].to_vector<double>();
  progress_.iterations = static_cast<int64_t>(values[0]);
  progress_.length = values[1];
  progress_.curvature = values[2];
  progress_.direction = expected.contains("direction") ? expected["direction"] : Tensor();
  progress_.previous_grad = progress_.direction.defined() ? expected["previous_grad"] : Tensor();
  progress_.history.clear();
  for (int64_t i = 0; expected.contains(fmt::format("history.{}.step", i)); ++i) {
    Tensor change = expected[fmt::format("history.{}.grad_change", i)];
    Tensor step = expected[fmt::format("history.{}.step", i)];
    progress_.history.push_back({change, step, 1 / Dot(change, step)});
  }
}

}  // namespace hammock::optim
