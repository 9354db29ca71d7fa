#pragma once
/// KernelCode: a kernel that can be run. New ones are interpreted until threads in the background
/// have compiled them; equal kernels share one object.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/code/native_code.h"
#include "backends/cpu/interpret/kernel_interpreter.h"
#include "backends/cpu/kernel_call.h"
#include "compiler/loops/kernel.h"

namespace hammock::cpu {

class KernelCode {
 public:
  /// Starts to compile a kernel that is new, unless the option `cpu.wait_for_code` is set: then
  /// whoever gets kernels calls WaitFor before they are run.
  static std::shared_ptr<KernelCode> Get(const std::shared_ptr<const compiler::Kernel>& kernel);
  /// Compiles these kernels, on several threads, and returns when all are compiled.
  static void WaitFor(const std::vector<std::shared_ptr<KernelCode>>& kernels);

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

  /// Compiles, or says once why that cannot be; nothing is thrown. Only the first call does it, and
  /// others do not wait.
  void Compile();

 private:
  enum State : int { kNew, kTaken, kDone };

  void CompileNow();
  void Wait() const;

  const std::shared_ptr<const compiler::Kernel> kernel_;
  const InterpretedKernel interpreted_;
  std::shared_ptr<const LoadedCode> code_;  // written once, before native_
  std::atomic<NativeKernel> native_{nullptr};
  std::atomic<int> state_{kNew};
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
