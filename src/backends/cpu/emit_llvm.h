#pragma once
/// From a kernel to LLVM IR, as text: `void @kernel(ptr args)`, with KernelArgs. A pure function.
/// Vectors have 16 lanes whatever the dtype; what does not fill one is masked.

#include <string>

#include "compiler/kernel.h"

namespace hammock::cpu {

std::string EmitLlvm(const compiler::Kernel& kernel);

}  // namespace hammock::cpu
