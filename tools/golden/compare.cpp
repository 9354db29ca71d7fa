#include "compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace hammock::golden {
namespace {

double Distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  return std::abs(a - b);
}

/// Complex numbers: the larger distance of the two parts.
double Distance(const Scalar& a, const Scalar& b) {
  return std::max(Distance(a.ToDouble(), b.ToDouble()), Distance(a.imag(), b.imag()));
}

bool Accepts(const Scalar& actual, const Scalar& expected, const Tolerance& tolerance) {
  if (!IsFloatOrComplex(actual.dtype())) return actual == expected;
  double e = std::abs(expected.As<std::complex<double>>());
  double allowed = tolerance.absolute + tolerance.relative * (std::isfinite(e) ? e : 0);
  return Distance(actual, expected) <= allowed;
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
  if (RealOf(dtype) == DType::kF64) return {1e-7, 1e-7};
  if (RealOf(dtype) == DType::kF32) return {1.3e-5, 1e-5};
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

double Distance(const HostTensor& values, const HostTensor& exact) {
  if (values.shape().sizes() != exact.shape().sizes()) {
    return std::numeric_limits<double>::infinity();
  }
  double largest = 0;
  for (int64_t i = 0; i < exact.numel(); ++i) {
    largest = std::max(largest, Distance(values.at(i), exact.at(i)));
  }
  return largest;
}

}  // namespace hammock::golden
