#pragma once
/// A compiled computation of the CPU backend as bytes: schedule, memory plan and machine code.

#include <memory>
#include <string>
#include <string_view>

#include "backends/cpu/program.h"
#include "hammock/lazy/lowering_context.h"

namespace hammock::cpu {

/// Everything that a saved program depends on besides its graph: this build of the library, the
/// processor, the versions of LLVM and oneDNN.
std::string ProgramFingerprint();

/// Waits until the code of all kernels is compiled. NotSupported where a kernel has none.
std::string SaveArtifact(const Program& program);
/// The artifact of `computation`. Compiles nothing.
std::shared_ptr<Program> LoadArtifact(const lazy::Computation& computation, std::string_view bytes);

}  // namespace hammock::cpu
