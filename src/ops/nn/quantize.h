#pragma once

#include <span>

#include "hammock/ir/op_def.h"

namespace hammock::ops {

/// quantized_linear(input, weight, scale, zero_point?, bias?)
extern const OpDef kQuantizedLinear;
/// _int_dot(self, other): [..., m, k] of i8 or u8 times the rows of i8 [..., n, k], with sums in
/// i32. What int_matmul and int_convolution become.
extern const OpDef kIntDot;

std::span<const OpDef* const> QuantizeOps();

}  // namespace hammock::ops
