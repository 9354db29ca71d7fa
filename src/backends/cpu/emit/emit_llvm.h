#pragma once
/// From a kernel to LLVM IR, as text: `void @NAME(ptr args)`, with KernelArgs and the name that
/// FunctionName gives it. A pure function.
/// Vectors have 16 to 64 lanes whatever the dtype; at the end of a row they have 16 and masks.
/// Where an access streams, others see what was written after a fence, which is the caller's.

#include <string>

#include "backends/cpu/emit/llvm_text.h"
#include "hammock/compiler/kernel.h"

namespace hammock::cpu {

std::string EmitLlvm(const compiler::Kernel& kernel, const compiler::IrTarget& target);

}  // namespace hammock::cpu
