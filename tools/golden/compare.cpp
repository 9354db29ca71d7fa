#include "compare.h"

#include <fmt/format.h>

#include <cmath>

namespace hammock::golden {
namespace {

bool Accepts(const Scalar& actual, const Scalar& expected, const Tolerance& tolerance) {
  if (!actual.IsFloating()) return actual == expected;
  double a = actual.ToDouble(), e = expected.ToDouble();
  if (a == e || (std::isnan(a) && std::isnan(e))) return true;
  if (!std::isfinite(a) || !std::isfinite(e)) return false;
  return std::abs(a - e) <= tolerance.absolute + tolerance.relative * std::abs(e);
}

Dims IndexOf(int64_t flat, const Dims& sizes) {
  Dims index = sizes;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    index[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return index;
}

}  // namespace

Tolerance ToleranceOf(DType dtype) {
  if (dtype == DType::kF64) return {1e-7, 1e-7};
  if (dtype == DType::kF32) return {1.3e-5, 1e-5};
  if (IsFloat(dtype)) return {1e-2, 1e-2};
  return {};
}

std::string Difference(const HostTensor& actual, const HostTensor& expected, double error) {
  if (actual.shape() != expected.shape()) {
    return fmt::format("is {}, expected {}", ToString(actual.shape()), ToString(expected.shape()));
  }
  Tolerance tolerance = ToleranceOf(expected.dtype());
  if (std::isfinite(error)) tolerance.absolute += error;
  int64_t first = -1, count = 0;
  for (int64_t i = 0; i < actual.numel(); ++i) {
    if (Accepts(actual.at(i), expected.at(i), tolerance)) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return "";
  return fmt::format("at {} is {}, expected {}; {} of {} elements differ",
                     ToString(IndexOf(first, expected.shape().sizes())),
                     actual.at(first).to_string(), expected.at(first).to_string(), count,
                     actual.numel());
}

}  // namespace hammock::golden
