#pragma once
/// Comparison of a result with the expected array.

#include <string>

#include "hammock/host_tensor.h"

namespace hammock::golden {

/// Accepted: |actual - expected| <= absolute + relative * |expected|; both 0 for integers and bool.
struct Tolerance {
  double relative = 0.0, absolute = 0.0;
};
Tolerance ToleranceOf(DType dtype);

/// Empty if dtype and shape are the same and the values within tolerance (NaN equals NaN), else
/// what differs: the first index with both values, and how many differ. `error` is how far the
/// expected values themselves may be from the exact ones; it is added to the absolute tolerance.
std::string Difference(const HostTensor& actual, const HostTensor& expected, double error = 0);

/// The largest |value - exact| of all elements; infinite where one of both is NaN or infinite and
/// the other is not the same, and where the shapes differ.
double Distance(const HostTensor& values, const HostTensor& exact);

}  // namespace hammock::golden
