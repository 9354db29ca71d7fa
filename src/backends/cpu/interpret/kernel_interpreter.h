#pragma once
/// Runs kernels without compiling them: what a new graph runs on while its kernels are compiled.
/// Blocks of columns go through one instruction after another, with the scalar bodies and reduction
/// trees that compiled code has, so the bits are the same.

#include <memory>
#include <vector>

#include "backends/cpu/emit/kernel_call.h"
#include "hammock/compiler/kernel.h"

namespace hammock::cpu {

/// Immutable; several threads may run it. Holds on to the kernel.
class InterpretedKernel {
 public:
  explicit InterpretedKernel(std::shared_ptr<const compiler::Kernel> kernel);
  ~InterpretedKernel();

  void Run(const KernelArgs& args) const;

 private:
  struct Op;
  class Runner;

  std::shared_ptr<const compiler::Kernel> kernel_;
  std::vector<Op> ops_;
  int64_t state_bytes_ = 0;
};

}  // namespace hammock::cpu
