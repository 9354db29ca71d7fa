#pragma once
/// The rows of the table, a file a family, and steps that several families take.

#include <span>
#include <vector>

#include "hammock/ops.h"
#include "onnx/call.h"

namespace hammock::onnx {

std::span<const Operator> ElementwiseOperators();
std::span<const Operator> ShapeOperators();
std::span<const Operator> IndexOperators();
std::span<const Operator> ReduceOperators();
std::span<const Operator> MatmulOperators();
std::span<const Operator> ConvOperators();
std::span<const Operator> PoolOperators();
std::span<const Operator> NormOperators();
std::span<const Operator> AttentionOperators();
std::span<const Operator> RecurrentOperators();
std::span<const Operator> ControlOperators();
std::span<const Operator> SequenceOperators();
std::span<const Operator> QuantizeOperators();
std::span<const Operator> ImageOperators();
std::span<const Operator> DecodeOperators();
std::span<const Operator> LossOperators();
std::span<const Operator> SignalOperators();
std::span<const Operator> RandomOperators();
std::span<const Operator> TextOperators();
std::span<const Operator> LearningOperators();
std::span<const Operator> TrainingOperators();
std::span<const Operator> MapOperators();
std::span<const Operator> SvmOperators();
std::span<const Operator> ContribOperators();
std::span<const Operator> ContribAttentionOperators();
std::span<const Operator> ContribQuantizeOperators();

/// Cast from or to strings.
Value CastOfText(const Call& call);
/// `axis` from the front.
int64_t Wrapped(const Call& call, int64_t axis, int64_t rank);
/// The axes of an attribute, or of an input from the opset on that made it one; sorted, from the
/// front.
Dims AxesOf(const Call& call, const char* attribute, size_t input, int64_t rank);
/// The product of some sizes.
int64_t Product(const Dims& sizes, int first, int last);
/// Fails where a list of so many numbers would have to be made.
void CheckListed(const Call& call, int64_t count);
/// A vector of the trace in progress.
Tensor VectorOf(const Call& call, const std::vector<int64_t>& values);
Tensor VectorOf(const Call& call, const std::vector<float>& values, const Dims& sizes);

}  // namespace hammock::onnx
