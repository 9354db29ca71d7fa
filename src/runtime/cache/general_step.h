#pragma once
/// Note [Generalised entries]: a graph that misses the cache, but differs from a cached one only in
/// sizes, is compiled with dim parameters, where the backend can. Later graphs of that kind are
/// instances of it: their sizes are read off their keys, and the backend makes its computation
/// ready for them. Nothing is lowered and nothing is compiled.
///
/// Note [Ranges of sizes]: what a graph is lowered to may depend on its sizes in any way. A rule
/// therefore holds for the sizes at which lowering was tried, and for the range between them:
/// what decides by sizes compares them with bounds, so what is so at both ends is so in between.
/// When a general step is made, its graph is lowered at sizes that follow each other, which differ
/// in what they are multiples of, and at the ends of the range. Sizes out of it are lowered once,
/// and widen it if they follow the rule. 0 and 1 are never taken for granted, and neither are equal
/// values of parameters: which ones are equal is lowered once.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "compiler/sizes/generalise.h"
#include "compiler/sizes/skeleton.h"
#include "hammock/lazy/lowering_context.h"
#include "runtime/cache/compile_step.h"
#include "runtime/cache/sized_key.h"

namespace hammock {

/// Shared by the steps that were made of it, and alive as long as one of them is cached.
/// Thread-safe.
struct GeneralStep {
  uint64_t structure = 0;
  std::vector<uint64_t> traced_words;  // of the skeletons
  std::vector<uint64_t> lowered_words;
  std::vector<SizeSample> samples;
  SizeRule rule;
  std::optional<SizedKey> key;
  lazy::ComputationPtr computation;
  int64_t compiled_as = 0;  // the number of the step that compiled it
  std::string where;        // and the source line of its sync
  int traced_nodes = 0;
  bool ordered = false;  // as in CompiledStep

  // Of instances that have no entry of their own.
  std::atomic<int64_t> executions{0};
  std::atomic<int64_t> execute_ns{0};

  std::optional<std::vector<int64_t>> SizesOf(std::span<const uint64_t> words) const {
    return key->SizesOf(words);
  }
  /// Whether graphs of these sizes are lowered by the rule, as far as is known, and the backend did
  /// not refuse them.
  bool Covers(const std::vector<int64_t>& sizes) const;
  bool InRange(const std::vector<int64_t>& sizes) const;
  void SetRange(SizeRange range);
  SizeRange range() const;
  /// They were lowered, and follow the rule.
  void AddVerified(const std::vector<int64_t>& sizes);
  /// The backend has failed to instantiate its computation at these sizes.
  void AddRefused(const std::vector<int64_t>& sizes);
  bool IsRefused(const std::vector<int64_t>& sizes) const;
  int64_t bytes() const;

  /// The fields that are saved besides the computation; the rest follows from the graph that it is
  /// loaded for.
  template <class Io>
  friend void Fields(Io& io, GeneralStep& general) {
    std::lock_guard lock(general.mutex_);
    io(general.samples, general.rule, general.ordered, general.range_, general.verified_,
       general.equalities_);
  }

 private:
  mutable std::mutex mutex_;
  SizeRange range_;                           // of the free parameters
  std::set<std::vector<int64_t>> verified_;   // of all
  std::set<std::vector<size_t>> equalities_;  // see EqualitiesOf, of sizes that were lowered
  std::set<std::vector<int64_t>> refused_;
};

/// The step of a general one at sizes that it covers, without an entry in the cache. Null where the
/// backend cannot do it: such a graph is compiled by itself.
CompiledStepPtr MakeInstance(DeviceEntry& device, const std::shared_ptr<GeneralStep>& general,
                             std::vector<int64_t> sizes);

/// One graph that is not in the cache, on its way to a compiled step.
class Generaliser {
 public:
  Generaliser(ComputationCache& cache, DeviceEntry& device, const std::vector<uint64_t>& key,
              const Graph& traced);

  /// An instance of a general step, if there is one that fits.
  CompiledStepPtr FindInstance();
  /// A step that another process has saved, or an instance of a saved general step.
  CompiledStepPtr Load(std::span<const std::string> devices);
  /// Compiles, with dim parameters where a graph of the same skeleton is cached. `outcome` is for
  /// CompileMiss::generalised.
  CompiledStepPtr Compile(std::span<const std::string> devices, std::string* outcome);

 private:
  const LoweredStep& lowered();
  static bool IsSimple(const LoweredStep& lowered);
  CompiledStepPtr Instantiate(const std::shared_ptr<GeneralStep>& general);
  /// Fills in the fields of `general` that describe the graph and step that it was made of.
  void Describe(GeneralStep& general, const CompiledStep& step) const;
  /// The rule of these samples, and of some that are made up by it.
  FoundRule RuleOf(const GeneralStep& general) const;
  std::optional<SizeSample> SampleAt(const GeneralStep& general, const SizeRule& rule,
                                     int64_t shift) const;
  /// The general step of `traced` and a cached step; without a computation. Null with a reason.
  std::shared_ptr<GeneralStep> GeneralWith(const CompiledStep& cached, std::string* reason);
  /// Whether the graph at these sizes of the free parameters is lowered to what the rule gives.
  bool IsLoweredByRule(const GeneralStep& general, const std::vector<int64_t>& free) const;
  /// Finds the sizes that `general` serves, from those of its samples and of `sizes`.
  void FindRange(GeneralStep& general, const std::vector<int64_t>& sizes) const;

  DeviceEntry& device_;
  const std::vector<uint64_t>& key_;
  const Graph& traced_;
  bool enabled_ = false;
  uint64_t structure_ = 0;
  Skeleton skeleton_;
  std::vector<CompiledStepPtr> alike_;  // cached, of the same structure
  std::optional<LoweredStep> lowered_;
  Skeleton lowered_skeleton_;
};

}  // namespace hammock
