#pragma once
/// Types and scalar functions as CUDA C++: hammock/compiler/scalar_text.h.

#include "hammock/compiler/scalar_text.h"

namespace hammock::cuda {

using compiler::HasText;

inline std::string_view ValueType(DType dtype) {
  return compiler::ValueType(compiler::kCudaC, dtype);
}
inline std::string_view MemoryType(DType dtype) {
  return compiler::MemoryType(compiler::kCudaC, dtype);
}

struct ScalarText : compiler::ScalarText {
  ScalarText() : compiler::ScalarText(compiler::kCudaC) {}
};

}  // namespace hammock::cuda
