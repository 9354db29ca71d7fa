#pragma once
/// The CUDA C++ text of a kernel: a pure function.

#include <string>

#include "backends/cuda/emit/launch_config.h"

namespace hammock::cuda {

/// The text of a function `name`, complete but for Prelude(). Its one parameter is a struct of
/// 64-bit arguments, passed by value. Several texts may be compiled together.
struct KernelSource {
  std::string name;
  std::string text;
};

/// Its arguments are those of KernelArguments. A `guarded` kernel has one more, the address of a
/// word in device memory: if that is not 0, it does nothing. See Note [Guarded kernels] in
/// program.h.
KernelSource EmitCuda(const compiler::Kernel& kernel, const LaunchConfig& config,
                      bool guarded = false);

/// The line that a guarded kernel begins with; `index` is that of the address among its arguments.
std::string GuardText(int index);

/// A name for the kernel that `what` describes.
std::string SourceName(const std::string& what);

}  // namespace hammock::cuda
