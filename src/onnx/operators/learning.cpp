#include "onnx/operators/families.h"

namespace hammock::onnx {

std::span<const Operator> LearningOperators() { return {}; }

}  // namespace hammock::onnx
