#include "onnx/operators/families.h"

namespace hammock::onnx {

std::span<const Operator> TextOperators() { return {}; }

}  // namespace hammock::onnx
