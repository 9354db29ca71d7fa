#pragma once

#include "onnx/call.h"

namespace hammock::onnx {

/// A row of com.microsoft, whose operators have one version. `takes` as in Operator.
constexpr Operator OfMicrosoft(const char* name, Values (*run)(Call&), const char* takes) {
  return {name, 1, 1, run, Needs::kNothing, "com.microsoft", takes};
}

}  // namespace hammock::onnx
