#include "hammock/nn/dropout.h"

#include <cmath>

#include "base/throw.h"
#include "hammock/ops.h"

namespace hammock::nn {
namespace {

/// 1 where a value is kept; one for each element, or for each channel.
Tensor Kept(const Tensor& input, double p, bool channels, bool batched) {
  Dims sizes = input.sizes();
  for (int dim = batched ? 2 : 1; channels && dim < sizes.size(); ++dim) sizes[dim] = 1;
  return bernoulli(full(sizes, 1 - p, input.dtype(), input.device()));
}

}  // namespace

DropoutBase::DropoutBase(const char* class_name, double probability, Kind kind)
    : UnaryLayer(class_name), p(probability), kind_(kind) {
  if (!(p >= 0 && p <= 1)) Throw(ErrorCode::kValue, "{}: p is {}, expected 0 to 1", class_name, p);
}

Tensor DropoutBase::Run(const Tensor& input) {
  if (!kind_.alpha && !kind_.channels) return dropout(input, p, is_training());
  if (!is_training() || p == 0) return input;
  if (p == 1) return input * 0.0;
  if (kind_.channels && input.dim() < 2) {
    Throw(ErrorCode::kShapeMismatch, "{}: the input is {}, expected channels", class_name(),
          input.shape().to_string());
  }
  Tensor kept = Kept(input, p, kind_.channels, input.dim() != kind_.unbatched_dims);
  if (!kind_.alpha) return input * (kept / (1 - p));
  // What is dropped becomes SELU's limit; then mean and variance are those of before.
  constexpr double kLimit = -1.7580993408473766;  // -scale * alpha
  double a = 1 / std::sqrt((1 - p) * (1 + p * kLimit * kLimit));
  double b = -a * p * kLimit;
  return (input * kept + (1.0 - kept) * kLimit) * a + b;
}

std::string DropoutBase::extra_repr() const { return fmt::format("p={}", p); }

}  // namespace hammock::nn
