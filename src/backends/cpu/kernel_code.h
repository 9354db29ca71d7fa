#pragma once
/// KernelCode: a kernel that can be run. New ones are interpreted until a thread in the background
/// has compiled them; equal kernels share one object.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/kernel_call.h"
#include "backends/cpu/kernel_interpreter.h"
#include "backends/cpu/native_code.h"
#include "compiler/kernel.h"

namespace hammock::cpu {

class KernelCode {
 public:
  /// Starts to compile a kernel that is new, or waits for it where the option `cpu.wait_for_code`
  /// says so.
  static std::shared_ptr<KernelCode> Get(const std::shared_ptr<const compiler::Kernel>& kernel);

  explicit KernelCode(std::shared_ptr<const compiler::Kernel> kernel)
      : kernel_(kernel), interpreted_(std::move(kernel)) {}

  /// One tile. Thread-safe.
  void Run(const KernelArgs& args) const {
    if (NativeKernel native = native_.load(std::memory_order_acquire)) {
      native(&args);
    } else {
      interpreted_.Run(args);
    }
  }
  bool compiled() const { return native_.load(std::memory_order_acquire) != nullptr; }
  const compiler::Kernel& kernel() const { return *kernel_; }

  /// Compiles, or says once why that cannot be; nothing is thrown.
  void Compile();

 private:
  const std::shared_ptr<const compiler::Kernel> kernel_;
  const InterpretedKernel interpreted_;
  std::shared_ptr<const LoadedCode> code_;  // written once, before native_
  std::atomic<NativeKernel> native_{nullptr};
};

/// While one lives, notes the kernels that this thread gets: what code must be compiled ahead.
class KernelRecorder {
 public:
  KernelRecorder();
  ~KernelRecorder();
  KernelRecorder(const KernelRecorder&) = delete;
  KernelRecorder& operator=(const KernelRecorder&) = delete;

  /// In order of first use, each once.
  const std::vector<std::shared_ptr<KernelCode>>& kernels() const { return kernels_; }

 private:
  friend class KernelCode;
  std::vector<std::shared_ptr<KernelCode>> kernels_;
  KernelRecorder* const outer_;
};

/// Returns when nothing is waiting to be compiled.
void WaitForCode();

}  // namespace hammock::cpu
