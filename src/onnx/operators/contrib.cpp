#include "onnx/operators/families.h"

namespace hammock::onnx {

std::span<const Operator> ContribOperators() { return {}; }

}  // namespace hammock::onnx
