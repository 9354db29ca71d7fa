#pragma once
/// Convolutions of images whose channels lie last, [N, pixels..., C] instead of [N, C, pixels...]:
/// what a compiled graph may use inside, where a library is faster so.

#include "hammock/ir/op_def.h"
#include "hammock/ir/shape.h"

namespace hammock::ops {

/// As `convolution`; `input_last` and `result_last` say where the channels of the input and of the
/// result are. The weight lies as ever.
extern const OpDef kConvolutionLast;
/// As `_convolution_weight_backward`; `grad_last` and `input_last` say where the channels of its
/// images are. The weight lies as ever.
extern const OpDef kConvolutionWeightBackwardLast;

/// The permutes that bring the channels last and back.
Dims ChannelsToLast(int rank);
Dims ChannelsToFirst(int rank);
/// The type after such a permute.
Shape WithChannelsLast(const Shape& first);
Shape WithChannelsFirst(const Shape& last);

}  // namespace hammock::ops
