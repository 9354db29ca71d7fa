#pragma once
/// GpuCode: the kernels of one GPU, from their texts to loaded functions. Each is compiled once in
/// a process, or taken from another process that saved its code.

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/driver/driver.h"
#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// A loaded kernel.
class GpuFunction : public Function {
 public:
  GpuFunction(const Driver& driver, std::string text) : text(std::move(text)), driver_(driver) {}
  ~GpuFunction() override {
    if (module) driver_.module_unload(module);
  }
  const std::string text;
  CUmodule module = nullptr;
  CUfunction function = nullptr;

 private:
  const Driver& driver_;
};

/// Thread-safe. The GPU's context is current in threads that load.
class GpuCode {
 public:
  GpuCode(const Driver& driver, int architecture) : driver_(driver), architecture_(architecture) {}

  /// Identifies the architecture and compiler that code is for.
  std::string key() const;
  std::vector<std::shared_ptr<Function>> Load(std::span<const KernelSource> sources);
  std::string Assembly(const KernelSource& source) const;

  /// The code of kernels, by a hash of their texts.
  std::map<std::string, std::string> Save(std::span<const KernelSource> sources);
  /// Code that another process saved, for kernels that are loaded later.
  void Add(std::map<std::string, std::string> code);

 private:
  std::vector<std::string> CompileAll(const std::vector<const KernelSource*>& sources);
  void LoadCode(const KernelSource& source, std::string code, GpuFunction& function) const;
  std::string CodeOf(const KernelSource& source);
  std::optional<std::string> TakeSaved(const std::string& key);

  const Driver& driver_;
  const int architecture_;
  std::mutex mutex_;  // taken before the other one
  std::map<std::string, std::weak_ptr<GpuFunction>> functions_;
  std::deque<std::shared_ptr<GpuFunction>> kept_;  // for later programs
  std::mutex saved_mutex_;
  std::map<std::string, std::string> saved_;  // until a kernel takes it
};

}  // namespace hammock::cuda
