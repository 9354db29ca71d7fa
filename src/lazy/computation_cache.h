#pragma once
/// Compiled steps and the bounded cache of them.

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/pipeline.h"
#include "hammock/executor.h"
#include "hammock/lazy/lowering_context.h"
#include "lazy/backend_registry.h"

namespace hammock {

/// A segment of a compiled step. Values are numbered: first the step's parameters, then the outputs
/// of segment 0, of segment 1, ...
struct CompiledSegment {
  DeviceEntry* device = nullptr;
  bool fallback = false;
  lazy::ComputationPtr computation;
  std::vector<int> inputs;
  int first_output = 0;
  std::vector<int32_t> origins;  // of the nodes, where the computation's graph came from a file
};

struct GeneralStep;
struct TraceFacts;

/// What a sync finds in the cache. Immutable but for its statistics; shared by running steps.
struct CompiledStep {
  CompiledStep();

  const int64_t number;                           // over the process, for traces
  std::shared_ptr<const TraceFacts> trace_facts;  // made and guarded by trace_points.cpp
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
  std::string where;  // source line of the sync that compiled it
  Hash128 skeleton;   // of key without sizes; zero where the backend compiles every size by itself
  std::shared_ptr<const GeneralStep> general;  // that serves its sizes and others, or null

  std::atomic<int> pins{0};  // compiled graphs that users hold; a pinned entry is not evicted
  std::atomic<int64_t> executions{0};
  std::atomic<int64_t> execute_ns{0};
  int64_t argument_bytes = 0;
  int64_t result_bytes = 0;
  int64_t run_bytes = 0;  // as in Computation, of all segments of the device together
  bool ordered = false;   // has ordered effects
};
using CompiledStepPtr = std::shared_ptr<CompiledStep>;

/// Least recently used entries go first, past `compilation_cache_size` entries or
/// `compilation_cache_bytes`. Thread-safe.
class ComputationCache {
 public:
  /// By hash, confirmed by key.
  CompiledStepPtr Find(const Hash128& hash, std::span<const uint64_t> key);
  CompiledStepPtr FindByHash(const Hash128& hash);
  /// Entries of the same skeleton and scope (the first word of the key), most recently used first.
  std::vector<CompiledStepPtr> FindAlike(const Hash128& skeleton, uint64_t scope);
  /// Keeps an entry of the same key that is there already, and returns the one that is kept.
  CompiledStepPtr Add(CompiledStepPtr step);
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
  void EraseAt(Lru::iterator at);
  void Shrink();
  void Publish();

  std::mutex mutex_;
  Lru lru_;
  std::unordered_multimap<uint64_t, Lru::iterator> by_hash_;
  CompiledStepPtr latest_;
  std::unordered_map<uint64_t, Hash128> evicted_;  // bounded: a hint for the explainer
  CacheStats stats_;
};

}  // namespace hammock
