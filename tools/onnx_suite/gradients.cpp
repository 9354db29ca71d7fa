#include "gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hammock/hammock.h"
#include "hammock/ir/graph.h"

namespace hammock::onnx_suite {
namespace {

/// A sum of all outputs, each element with a weight of its own, so that none cancels another.
Tensor WeightedSum(Module& module, const std::vector<Any>& inputs) {
  Any result = module.run_method("forward", inputs);
  AnyList results = result.IsTensor() ? AnyList{result} : result.ToList();
  Tensor sum;
  for (const Any& y : results) {
    if (!y.IsTensor() || !IsFloat(y.ToTensor().dtype())) continue;
    DType wide = y.ToTensor().dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
    Tensor flat = y.ToTensor().to(wide).reshape({-1});
    Tensor weights = sin(arange(flat.numel(), wide) * 0.7 + 0.3);
    Tensor own = hammock::sum(flat * weights);
    sum = sum.defined() ? sum + own : own;
  }
  return sum;
}

/// A tensor whose gradient is compared.
struct Leaf {
  std::string name;
  Tensor tensor;
  Tensor value = {};  ///< that it has, but for steps
  Tensor gradient = {};
  double size = 1;     ///< root of the mean square of its elements; 1 where they are 0
  double squares = 0;  ///< of the gradient's elements
};

bool IsCompared(const Tensor& tensor) {
  return IsFloat(tensor.dtype()) && InfoOf(tensor.dtype()).bits >= 32;
}

/// Single numbers of a file are mostly constants such as an epsilon, and no leaves.
std::vector<Leaf> LeavesOf(const Module& module, std::vector<Any>& inputs) {
  std::vector<Leaf> leaves;
  for (const auto& [name, tensor] : module.named_parameters()) {
    if (IsCompared(tensor) && tensor.numel() > 1) leaves.push_back({name, tensor});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].IsTensor() || !IsCompared(inputs[i].ToTensor())) continue;
    Tensor own = inputs[i].ToTensor().clone().detach().requires_grad_();
    inputs[i] = own;
    if (own.numel() > 0) leaves.push_back({fmt::format("input {}", i), own});
  }
  for (Leaf& leaf : leaves) {
    double size = std::sqrt(mean(square(leaf.tensor)).item<double>());
    if (size > 0) leaf.size = size;
  }
  return leaves;
}

class Slopes {
 public:
  Slopes(Module& module, std::vector<Any> inputs)
      : module_(module), inputs_(std::move(inputs)), leaves_(LeavesOf(module, inputs_)) {}

  bool IsFinite() {
    FindGradient();
    return std::isfinite(length_);
  }

  /// Why the gradient is wrong near the values that the tensors have.
  std::string Complaint(int directions) {
    LeaveKinks();
    FindGradient();
    std::string complaint = AlongGradient();
    for (int i = 0; i < directions && complaint.empty(); ++i) complaint = AlongRandom();
    return complaint.empty() ? LostGradient() : complaint;
  }

 private:
  /// A little noise. Pixels that are equal lie on kinks of a pooling, dead units on that of their
  /// relu, and the slope there is between those of both sides.
  void LeaveKinks() {
    constexpr double kNoise = 1e-3;
    for (Leaf& leaf : leaves_) {
      leaf.tensor.add_(randn_like(leaf.tensor) * (kNoise * leaf.size));
      leaf.value = leaf.tensor.clone();
    }
  }

  void FindGradient() {
    {
      EnableGradGuard grad;
      for (Leaf& leaf : leaves_) leaf.tensor.set_grad(Tensor());
      WeightedSum(module_, inputs_).backward();
    }
    double squares = 0;
    for (Leaf& leaf : leaves_) {
      Tensor gradient = leaf.tensor.grad();
      leaf.gradient = gradient.defined() ? gradient : zeros_like(leaf.tensor);
      leaf.squares = sum(square(leaf.gradient)).item<double>();
      squares += leaf.squares;
    }
    length_ = std::sqrt(squares);
  }

  std::string AlongGradient() {
    if (length_ == 0 || !std::isfinite(length_)) {
      return fmt::format("the gradient has the length {}", length_);
    }
    std::vector<Tensor> steps;
    for (const Leaf& leaf : leaves_) steps.push_back(leaf.gradient / length_);
    constexpr double kEnough = 0.01;
    double best = Deviation(steps, length_, kEnough * length_) / length_;
    if (best <= kEnough) return "";
    return fmt::format("the slope along the gradient differs by {:.1f}% from its length {:.4g}",
                       100 * best, length_);
  }

  /// Each tensor by its own size, so that none is too small to be seen.
  std::string AlongRandom() {
    std::vector<Tensor> steps;
    double slope = 0, squares = 0;
    for (const Leaf& leaf : leaves_) {
      steps.push_back(randn_like(leaf.tensor) * leaf.size);
      slope += sum(leaf.gradient * steps.back()).item<double>();
      squares += leaf.squares * leaf.size * leaf.size;
    }
    const double typical = std::sqrt(squares);  // of random directions
    constexpr double kEnough = 0.02;
    double best = Deviation(steps, slope, kEnough * typical) / typical;
    if (best <= kEnough) return "";
    return fmt::format(
        "the slope along a random direction is not {:.4g}: it differs by {:.1f}% of a usual one",
        slope, 100 * best);
  }

  /// Where the sum changes by every step of a tensor, its gradient is not 0.
  std::string LostGradient() {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const Leaf& leaf = leaves_[i];
      if (leaf.squares != 0) continue;
      std::vector<Tensor> steps(leaves_.size());
      steps[i] = randn_like(leaf.tensor) * leaf.size;
      bool depends = true;
      for (double distance : {1e-2, 3e-3, 1e-3}) {
        depends = depends && At(steps, distance) != At(steps, -distance);
      }
      if (depends)
        return fmt::format("the gradient of '{}' is 0, but outputs depend on it", leaf.name);
    }
    return "";
  }

  /// The sum at a distance along a direction; an undefined tensor is a step of 0.
  double At(const std::vector<Tensor>& steps, double distance) {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (steps[i].defined()) leaves_[i].tensor.add_(steps[i] * distance);
    }
    double value = WeightedSum(module_, inputs_).item<double>();
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (steps[i].defined()) leaves_[i].tensor.copy_(leaves_[i].value);
    }
    return value;
  }

  /// By how much the slope differs from what is expected, at the best of several distances:
  /// rounding spoils short ones, curvature and kinks long ones.
  double Deviation(const std::vector<Tensor>& steps, double expected, double enough) {
    double best = INFINITY;
    const bool doubles = leaves_[0].tensor.dtype() == DType::kF64;
    const double most = doubles ? 1e-4 : 0.3, least = doubles ? 1e-11 : 1e-5;
    for (double distance = most; distance > least && best > enough; distance /= 2) {
      double slope = (At(steps, distance) - At(steps, -distance)) / (2 * distance);
      best = std::min(best, std::abs(slope - expected));
    }
    return best;
  }

  Module& module_;
  std::vector<Any> inputs_;
  std::vector<Leaf> leaves_;
  double length_ = 0;
};

/// Inputs in doubles, where they are floats.
std::vector<Any> InDoubles(std::vector<Any> inputs) {
  for (Any& input : inputs) {
    if (!input.IsTensor() || !IsFloat(input.ToTensor().dtype())) continue;
    input = input.ToTensor().to(DType::kF64);
  }
  return inputs;
}

/// A module whose `forward` is a graph, with f64 in the place of f32.
ModulePtr InDoubles(const Module& module) {
  auto twin = std::make_shared<Module>("Doubles");
  Method forward = module.method("forward");
  GraphBody body = *forward.body;
  std::string text = ToText(*body.graph);
  for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos;) text.replace(at, 3, "f64");
  body.graph = std::make_shared<const Graph>(ParseGraph(text));
  auto wide = [](const Tensor& x) { return x.dtype() == DType::kF32 ? x.to(DType::kF64) : x; };
  for (size_t i = 0; i < body.captures.size(); ++i) {
    Capture& capture = body.captures[i];
    if (capture.name.empty()) {
      capture.constant = wide(capture.constant);
      continue;
    }
    Tensor tensor = wide(module.get_tensor(capture.name)).detach();
    std::ranges::replace(capture.name, '.', '_');
    capture.name = fmt::format("p{}_{}", i, capture.name);
    if (IsFloat(tensor.dtype())) {
      twin->register_parameter(capture.name, tensor);
    } else {
      twin->register_buffer(capture.name, tensor);
    }
  }
  forward.body = std::make_shared<const GraphBody>(std::move(body));
  twin->define(std::move(forward));
  return twin;
}

}  // namespace

std::string CheckGradients(Module& module, const std::vector<Any>& inputs, int directions) {
  NoGradGuard no_grad;
  manual_seed(1);
  Slopes slopes(module, inputs);
  if (slopes.IsFinite()) return slopes.Complaint(directions);
  // At the root of 0, say the size of a frequency that is silent, there is no gradient. Roots near
  // 0 are curved so much that only doubles see a slope.
  module.trace("forward", inputs);
  ModulePtr twin = InDoubles(module);
  return Slopes(*twin, InDoubles(inputs)).Complaint(directions);
}

}  // namespace hammock::onnx_suite
