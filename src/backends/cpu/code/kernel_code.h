#pragma once
/// KernelCode: an executable kernel. A new kernel is interpreted until background threads have
/// compiled it; equal kernels share one object.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/code/native_code.h"
#include "backends/cpu/emit/kernel_call.h"
#include "backends/cpu/interpret/kernel_interpreter.h"
#include "hammock/compiler/kernel.h"
#include "hammock/option.h"

namespace hammock::cpu {

inline constinit config::Option<bool> kWaitForCode({
    .name = "cpu.wait_for_code",
    .default_value = false,
    .doc = "Compile the kernels of a new graph before it runs, instead of interpreting them until "
           "they are compiled in the background.",
});

class KernelCode {
 public:
  /// Starts to compile a new kernel, unless the option `cpu.wait_for_code` is set: then the caller
  /// calls WaitFor before kernels are run.
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
  /// Counts a run in the metrics, as compiled or interpreted.
  void CountRun() const;
  bool compiled() const { return native_.load(std::memory_order_acquire) != nullptr; }
  const compiler::Kernel& kernel() const { return *kernel_; }
  /// Null where it is not compiled.
  std::shared_ptr<const LoadedCode> code() const { return compiled() ? code_ : nullptr; }

  /// Compiles; a failure is logged once, and nothing is thrown. Only the first call compiles, and
  /// others do not wait. Calls `before_opening` where no cache has the code.
  void Compile(const std::function<void()>& before_opening = nullptr);

 private:
  enum State : int { kNew, kTaken, kDone };

  void CompileNow(const std::function<void()>& before_opening);
  void Wait() const;

  const std::shared_ptr<const compiler::Kernel> kernel_;
  const InterpretedKernel interpreted_;
  std::shared_ptr<const LoadedCode> code_;  // written once, before native_
  std::atomic<NativeKernel> native_{nullptr};
  std::atomic<int> state_{kNew};
};

/// Returns when no kernel waits to be compiled.
void WaitForCode();

}  // namespace hammock::cpu
