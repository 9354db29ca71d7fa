#pragma once
/// Note [Generalised entries]: a graph that misses the cache, but differs from a cached one only in
/// sizes, is compiled with dim parameters, where the backend can; later graphs of that skeleton are
/// instances of it and need no compilation. An instance is an entry like others, found by its own
/// key, so the usual hit costs nothing. What an instance runs is its own lowered graph: the rule
/// only proves that the general computation is one of it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/generalise.h"
#include "compiler/pipeline.h"
#include "compiler/skeleton.h"
#include "hammock/lazy/lowering_context.h"
#include "lazy/compile_step.h"

namespace hammock {

/// Shared by the steps that were made of it, and alive as long as one of them is cached.
struct GeneralStep {
  std::vector<uint64_t> traced_words;  // of the skeletons
  std::vector<uint64_t> lowered_words;
  std::vector<SizeSample> samples;
  SizeRule rule;
  lazy::ComputationPtr computation;
};

/// One graph that is not in the cache, on its way to a compiled step.
class Generaliser {
 public:
  Generaliser(ComputationCache& cache, DeviceEntry& device, uint64_t scope, const Graph& traced);

  /// An instance of a general step, if there is one that fits.
  CompiledStepPtr FindInstance();
  /// Compiles, with dim parameters where a graph of the same skeleton is cached. `outcome` is for
  /// CompileMiss::generalised.
  CompiledStepPtr Compile(std::span<const std::string> devices, std::string* outcome);

 private:
  const LoweredStep& lowered();
  bool IsSimple() const;
  CompiledStepPtr Instantiate(const std::shared_ptr<const GeneralStep>& general);
  /// What `traced` and a cached step have in common; without a computation. Null with a reason.
  std::shared_ptr<GeneralStep> GeneralWith(const CompiledStep& cached, std::string* reason);

  DeviceEntry& device_;
  const Graph& traced_;
  bool enabled_ = false;
  Skeleton skeleton_;
  Hash128 skeleton_hash_;
  std::vector<CompiledStepPtr> alike_;  // cached, of the same skeleton
  std::optional<LoweredStep> lowered_;
  Skeleton lowered_skeleton_;
};

}  // namespace hammock
