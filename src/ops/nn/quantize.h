#pragma once

#include <span>

#include "hammock/ir/op_def.h"

namespace hammock::ops {

/// quantized_linear(input, weight, scale, zero_point?, bias?)
extern const OpDef kQuantizedLinear;

/// self quantised by a scale that broadcasts with it, and dequantised; its gradient is that of a
/// clamp (fake_quantize.cpp).
extern const OpDef kFakeQuantize;
extern const OpDef kFakeQuantizeFunctions[2];

/// The largest element of an integer dtype that floats of `wide` can hold.
double HighestStep(DType dtype, DType wide);

std::span<const OpDef* const> QuantizeOps();

}  // namespace hammock::ops
