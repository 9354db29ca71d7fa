#pragma once
/// A compiled computation of the CUDA backend as bytes: schedule, memory plan, code of kernels,
/// algorithms that libraries have chosen.

#include <memory>
#include <string>
#include <string_view>

#include "backends/cuda/program.h"
#include "hammock/lazy/lowering_context.h"

namespace hammock::cuda {

/// Everything that a saved program depends on besides its graph: this build of the library, the
/// GPU, the versions of driver, compiler and libraries.
std::string ProgramFingerprint(const Machine& machine);

std::string SaveArtifact(const Program& program, Machine& machine);
/// The artifact of `computation`. Compiles nothing.
std::shared_ptr<Program> LoadArtifact(const lazy::Computation& computation, std::string_view bytes,
                                      const std::shared_ptr<Machine>& machine);

}  // namespace hammock::cuda
