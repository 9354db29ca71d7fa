#pragma once

#include <string>

#include "backends/cpu/emit/llvm_text.h"

namespace hammock::cpu {

/// What decides which machine code this CPU runs: maker, family, model and feature bits, as one
/// word. Equal on all cores, known without LLVM; part of the key of compiled code.
const std::string& HostCpuKey();

/// What code for this CPU may use.
compiler::IrTarget HostTarget();

}  // namespace hammock::cpu
