#pragma once
/// Steps that the operators of ai.onnx.ml share.

#include "onnx/operators/families.h"

namespace hammock::onnx {

inline constexpr const char* kLearning = "ai.onnx.ml";
inline constexpr int kNewestLearning = 5;

/// The scores after the attribute `post_transform`.
Tensor PostTransformed(const Call& call, const Tensor& scores);
/// The names of classes at `index`: numbers, or strings, for which the index is read.
Value LabelsAt(const Call& call, const char* ints, const Tensor& index);

}  // namespace hammock::onnx
