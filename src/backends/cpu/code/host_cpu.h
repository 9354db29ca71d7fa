#pragma once

#include <string>

#include "backends/cpu/emit/llvm_text.h"

namespace hammock::cpu {

/// The identity of this CPU as one word: maker, family, model and feature bits. Equal on all cores,
/// known without LLVM; part of the key of compiled code.
const std::string& HostCpuKey();

/// The instruction sets that code for this CPU may use.
compiler::IrTarget HostTarget();

}  // namespace hammock::cpu
