#pragma once
/// The CUDA C++ text of a kernel: a pure function.

#include <string>

#include "backends/cuda/emit/launch_config.h"

namespace hammock::cuda {

/// A function `name` that takes one argument by value, a struct of 64-bit words, and all that it
/// needs besides Prelude(). Several may be compiled together.
struct KernelSource {
  std::string name;
  std::string text;
};

/// Its words are those of ArgumentWords. A `guarded` kernel has one more, the address of a word in
/// device memory: where that is not 0, it does nothing. See Note [Guarded kernels] in program.h.
KernelSource EmitCuda(const compiler::Kernel& kernel, const LaunchConfig& config,
                      bool guarded = false);

/// The line that a guarded kernel begins with; `place` is that of the address among its words.
std::string GuardText(int place);

/// A name for the kernel that `what` describes.
std::string SourceName(const std::string& what);

}  // namespace hammock::cuda
