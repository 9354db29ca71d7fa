#pragma once
/// Scalar functions without an inline body (compiler::HasBody), as C functions of one element.
/// Floats are widened to double and the result is rounded to their type; interpreted and compiled
/// code call the same ones, so their results are the same.

#include <cstdint>

#include "hammock/ir/dtype.h"
#include "hammock/ir/scalar_fn.h"

namespace hammock::cpu {

using LaneUnary = double (*)(double);
using LaneBinary = double (*)(double, double);
/// Integers are widened to 64 bits, by their sign if they have one; the result is cut.
using LaneIntBinary = int64_t (*)(int64_t, int64_t);

/// For a float dtype: every unary or binary function whose result is a float. Null elsewhere.
LaneUnary LaneUnaryFor(ScalarFn fn, DType dtype);
LaneBinary LaneBinaryFor(ScalarFn fn, DType dtype);
/// For integers: kGcd. Null elsewhere.
LaneIntBinary LaneIntBinaryFor(ScalarFn fn, DType dtype);

}  // namespace hammock::cpu
