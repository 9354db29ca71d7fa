#pragma once
/// Compiled steps and the bounded cache of them.

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/pipeline.h"
#include "hammock/executor.h"
#include "hammock/lazy/lowering_context.h"
#include "runtime/devices/backend_registry.h"

namespace hammock {

/// A segment of a compiled step. Values are numbered: first the step's parameters, then the outputs
/// of segment 0, of segment 1, ...
struct CompiledSegment {
  DeviceEntry* device = nullptr;
  bool fallback = false;
  lazy::ComputationPtr computation;
  std::vector<int> inputs;
  int first_output = 0;
};

struct GeneralStep;
struct ProfileFacts;

/// A compiled step in the cache. Immutable but for its statistics; shared by running steps.
struct CompiledStep {
  CompiledStep();

  const int64_t number;                               // over the process, for traces
  std::shared_ptr<const ProfileFacts> profile_facts;  // made and guarded by profile_points.cpp
  Hash128 hash;
  std::vector<uint64_t> key;
  Graph traced;
  DeviceEntry* device = nullptr;
  std::vector<CompiledSegment> segments;
  std::vector<int> results;         // value numbers
  std::vector<Refusal> refusals;    // nodes that the fallback device runs
  DeviceEntry* fallback = nullptr;  // which one
  int num_parameters = 0;
  int num_values = 0;
  bool simple = false;  // one segment whose inputs and outputs are the step's own
  int64_t bytes = 0;
  int64_t compile_ns = 0;
  std::string where;                     // source line of the sync that compiled it
  uint64_t structure = 0;                // that it has in common with graphs of other sizes
  std::shared_ptr<GeneralStep> general;  // that serves its sizes and others, or null
  std::vector<int64_t> sizes;            // of an instance of it, which has no key and traced graph

  std::atomic<int> pins{0};  // compiled graphs that users hold; a pinned entry is not evicted
  std::atomic<int64_t> executions{0};
  std::atomic<int64_t> execute_ns{0};
  int64_t argument_bytes = 0;
  int64_t result_bytes = 0;
  int64_t run_bytes = 0;        // as in Computation, of all segments of the device together
  bool ordered = false;         // has ordered effects
  bool compile_failed = false;  // a segment runs elsewhere because its device could not compile it
};
using CompiledStepPtr = std::shared_ptr<CompiledStep>;

/// A general step that serves a graph.
struct GeneralMatch {
  std::shared_ptr<GeneralStep> general;  ///< null: there is none
  std::vector<int64_t> sizes;
  CompiledStepPtr step;  ///< the instance at these sizes, if it is kept
};

/// Note [Instances in turn]: a program may use more sizes in turn than there is room for, and then
/// the least recently used one is always the next that it needs: of such a cycle none would be
/// found. So a new instance that others had to leave for is the next to leave, unless it is used
/// before; what is kept already is found in each cycle. Every 16th begins as the most recently used
/// one, so that the sizes that a program uses no longer go in time.

/// Least recently used entries go first, past `compilation_cache_size` entries or
/// `compilation_cache_bytes`. Instances of general steps are no entries, since they are cheap to
/// make again: they take at most an eighth of the bytes. Thread-safe.
class ComputationCache {
 public:
  /// By hash, confirmed by key.
  CompiledStepPtr Find(const Hash128& hash, std::span<const uint64_t> key);
  CompiledStepPtr FindByHash(const Hash128& hash);
  bool Has(const Hash128& hash);  ///< instances too
  /// Confirmed by key too.
  GeneralMatch FindGeneral(uint64_t structure, std::span<const uint64_t> key);
  /// Entries of the same structure, most recently used first.
  std::vector<CompiledStepPtr> FindAlike(uint64_t structure);
  /// Keeps an entry of the same key that is there already, and returns the one that is kept.
  CompiledStepPtr Add(CompiledStepPtr step);
  /// The same for an instance.
  CompiledStepPtr AddInstance(CompiledStepPtr step);
  void CountMiss();  ///< a graph has to be compiled
  bool Erase(const Hash128& hash);
  void EraseDevice(const DeviceEntry* device);
  void Clear();
  CompiledStepPtr Latest();
  /// Most recently used first.
  std::vector<CompiledStepPtr> All();
  bool WasEvicted(const Hash128& hash);
  CacheStats Stats();

 private:
  using Lru = std::list<CompiledStepPtr>;
  using Index = std::unordered_multimap<uint64_t, Lru::iterator>;
  using Instances = std::map<std::vector<int64_t>, Lru::iterator>;
  static void EraseFrom(Index& index, uint64_t key, Lru::iterator at);
  void EraseAt(Lru::iterator at);
  bool MakeRoomForInstance(int64_t bytes);
  void EraseInstance(Lru::iterator at);
  void EraseInstancesOf(const GeneralStep& general);
  void EraseInstancesIf(const std::function<bool(const CompiledStep&)>& wanted,
                        bool* found = nullptr);
  void Shrink();
  void Publish();

  std::mutex mutex_;
  Lru lru_;
  Index by_hash_;
  Index by_structure_;
  Lru instance_lru_;
  std::unordered_map<const GeneralStep*, Instances> instances_;  // looked up, never iterated
  int64_t instance_bytes_ = 0;                                   // part of the statistics' bytes
  uint64_t instances_added_ = 0;                                 // that others had to leave for
  CompiledStepPtr latest_;
  std::unordered_map<uint64_t, Hash128> evicted_;  // bounded: a hint for the explainer
  CacheStats stats_;
};

}  // namespace hammock
