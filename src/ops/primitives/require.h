#pragma once
/// Conditions on values, which are known only when a graph runs.

#include <string>

#include "hammock/tensor.h"

namespace hammock::ops {

/// `x`, whose use raises an error "op: message" at the caller's line unless all of
/// `condition` holds. Who uses the result depends on the check, so that it is never left out. The
/// message is part of the key and should not depend on numbers.
Tensor Required(const Tensor& x, const Tensor& condition, const char* op, const char* message);
/// low <= x <= high, which NaN is not.
Tensor InRange(const Tensor& x, double low, double high);

}  // namespace hammock::ops
