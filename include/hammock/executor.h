#pragma once
/// When and how recorded work runs. Most programs need only `step`, `mark_step` and reads.
///
///   for (...) step([&] { train(batch); });   // locals of the body die before the sync
///
/// Names in CamelCase are those of PyTorch's LazyGraphExecutor; the snake_case functions are its
/// Python front end. All of it may be called from any thread.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hammock/device.h"
#include "hammock/export.h"
#include "hammock/ir/hash.h"
#include "hammock/tensor.h"

namespace hammock {

/// Why a graph was compiled: the nearest cached graph and the first thing that differs.
struct HAMMOCK_API CompileMiss {
  int64_t number = 0;  ///< 1, 2, ... over the process
  Hash128 hash;        ///< of the new graph
  std::string device;
  std::string trigger;  ///< "mark_step", "read", "eager op", "node budget", ...
  std::string where;    ///< source line of the trigger
  int64_t nodes = 0;
  int64_t outputs = 0;
  int64_t outputs_kept = 0;  ///< outputs that only a live handle or pending op keeps
  std::string kind;     ///< "first graph", "op", "attribute", "shape", "dtype", "operand", "live
                        ///< output", "alias", "device", "config", "extra nodes", "evicted"
  std::string nearest;  ///< hash of the nearest cached graph, or empty
  std::string detail;   ///< what differs, in words, with both source lines
  /// Where a cached graph differs only in sizes: "for all n" if it was compiled for all sizes, or
  /// why it was not. Else empty.
  std::string generalised;

  std::string ToText() const;
  std::string ToJson() const;
};

/// Compiled steps, found by hash and confirmed by key; least recently used ones go first, past a
/// number of entries or of bytes.
struct HAMMOCK_API CacheStats {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t hits = 0;        ///< new sizes of a graph that serves all sizes are neither
  int64_t misses = 0;      ///< graphs that were compiled
  int64_t collisions = 0;  ///< equal hash, different key
  int64_t evictions = 0;
};

/// One cached graph and what it has cost.
struct HAMMOCK_API GraphInfo {
  Hash128 hash;
  std::string device;
  std::string where;  ///< source line of the sync that compiled it
  int64_t nodes = 0;
  int64_t executions = 0;
  int64_t compile_ns = 0;
  int64_t execute_ns = 0;      ///< in all
  int64_t argument_bytes = 0;  ///< a run's inputs
  int64_t result_bytes = 0;    ///< a run's outputs
  int64_t cache_bytes = 0;     ///< held by the cache entry
  int64_t segments = 0;
  int64_t fallback_segments = 0;
  bool generalised = false;  ///< compiled once for all sizes, with others
};

/// A function of tensors as one compiled graph, from `extract_compiled_graph`; a call traces
/// nothing. Copies share the graph, which stays in the cache as long as one of them lives.
///
/// The function stays as it was when captured: numbers keep their values, and tensors that it uses
/// without being given them are constants with the data that they had (not copied). Inputs that it
/// updates in place are updated at every call; inputs that it returns are the arguments themselves;
/// other outputs share no memory with the arguments. Random ops draw from the default generator at
/// every call.
class HAMMOCK_API CompiledGraph {
 public:
  /// Same number, types and device of inputs as when captured, else ValueError or TypeError. May be
  /// called from several threads at once.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs,
                                 Location at = Location::current()) const;
  Hash128 hash(Location at = Location::current()) const;
  std::string text(Location at = Location::current()) const;  ///< the graph as traced

 private:
  friend struct TracedFunction;
  struct State;
  std::shared_ptr<const State> state_;
};

class HAMMOCK_API LazyGraphExecutor {
 public:
  static LazyGraphExecutor* Get();

  // ---- Running
  /// Computes the given tensors (and what else is live in their graphs).
  void SyncTensorsGraph(std::span<const Tensor> tensors, bool wait = true,
                        Location at = Location::current());
  /// Computes every pending tensor of the calling thread on `device` (null: on all devices).
  /// `devices` is the replication list of the contract; each must exist.
  void SyncLiveTensorsGraph(const Device* device, std::span<const std::string> devices = {},
                            bool wait = false, Location at = Location::current());
  /// The same for the tensors of all threads.
  void SyncAllThreads(const Device* device, bool wait = false, Location at = Location::current());
  /// A full step: raises an error that an earlier step has left, then SyncLiveTensorsGraph with
  /// donation of dying inputs, then step closures.
  void MarkStep(const Device* device = nullptr, bool wait = false,
                Location at = Location::current());
  /// Waits for everything queued on the devices (all if empty); raises an error nobody has seen.
  void WaitDeviceOps(std::span<const Device> devices = {}, Location at = Location::current());
  void DeviceBarrier(const Device& device, Location at = Location::current());
  /// Host copies of several tensors, computed in one graph.
  std::vector<HostTensor> GetTensors(std::span<const Tensor> tensors,
                                     Location at = Location::current());
  /// Drains queues, then tells every backend. Called at exit.
  void PrepareToExit();

  // ---- Looking
  std::vector<Tensor> GetLiveTensors(const Device* device = nullptr);
  bool IsPending(const Tensor& tensor);
  int64_t GetTensorId(const Tensor& tensor);
  Hash128 GetGraphHash(std::span<const Tensor> tensors);
  /// The pending graph of the tensors as "text", "dot" or "backend".
  std::string DumpTensors(std::span<const Tensor> tensors, const std::string& format = "text");

  // ---- Errors
  /// Forgets the error that a tensor's value carries, so that the next read tries again.
  void ClearErrors(const Tensor& tensor);

  // ---- The computation cache
  CacheStats GetCacheStats();
  /// The cached graphs, most recently used first.
  std::vector<GraphInfo> GetGraphs();
  bool IsCached(const Hash128& hash);
  void ClearComputationCache();
  bool RemoveFromComputationCache(const Hash128& hash);
  std::optional<Hash128> GetLatestHash();
  std::string GetCachedText(const Hash128& hash, const std::string& format = "text");
  /// Runs a cached graph on arguments in parameter order; ValueError if it is not (or no longer)
  /// cached.
  std::vector<Tensor> RunCachedGraph(const Hash128& hash, const std::vector<Tensor>& arguments,
                                     Location at = Location::current());
  /// The latest misses, oldest first.
  std::vector<CompileMiss> GetMisses();

  // ---- Capture
  CompiledGraph Capture(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn,
                        const std::vector<Tensor>& example_inputs,
                        Location at = Location::current());
};

HAMMOCK_API void mark_step(bool wait = false, Location at = Location::current());
HAMMOCK_API void mark_step(const Device& device, bool wait = false,
                           Location at = Location::current());
HAMMOCK_API void sync_multi(const std::vector<Tensor>& tensors, Location at = Location::current());
HAMMOCK_API void wait_device_ops(const std::vector<Device>& devices = {},
                                 Location at = Location::current());

/// Ops that are recorded while one lives are one step: its in-place writes happen together or not
/// at all. Those of an outermost one that an exception leaves are undone. Raises an error that an
/// earlier step of this thread has left.
class HAMMOCK_API StepScope {
 public:
  explicit StepScope(Location at = Location::current());
  ~StepScope();
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;
  /// Starts what was recorded, and runs step closures. Errors of it are raised where its values are
  /// read, or by the next step.
  void Mark(Location at = Location::current());
  /// Undoes the in-place writes since the scope began or was marked; for an outermost one. Values
  /// that depend on them raise an error.
  void Abandon();

 private:
  int exceptions_;  // that were under way when it began
};

/// Runs `fn`, lets its locals die, then marks a step: temporaries do not become outputs. If an op
/// of the step fails, or `fn` throws, tensors that the step updates in place are what they were
/// before it.
template <class Fn>
void step(Fn&& fn, Location at = Location::current()) {
  StepScope scope(at);
  fn();
  scope.Mark(at);
}

/// Runs `fn` after the next step; asynchronous ones run on a thread of their own, in order. An
/// exception of an asynchronous closure is raised by the next step.
HAMMOCK_API void add_step_closure(std::function<void()> fn, bool run_async = false,
                                  Location at = Location::current());

/// Traces `fn` on stand-ins for the examples, which are left alone, and compiles it. Refused, with
/// the reason: reading a value inside `fn`, keeping one that depends on the inputs outside of it,
/// ops that would run on the fallback device, several devices, eager mode.
HAMMOCK_API CompiledGraph extract_compiled_graph(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn,
    const std::vector<Tensor>& example_inputs, Location at = Location::current());

/// Gives a tensor's memory away: the next op that uses its value last may overwrite it. Using the
/// handle again is an error that says so.
HAMMOCK_API void donate(Tensor& tensor, Location at = Location::current());

/// Op by op for debugging, on this thread while it lives; results are the same.
class HAMMOCK_API EagerMode {
 public:
  EagerMode();
  ~EagerMode();
  EagerMode(const EagerMode&) = delete;
  EagerMode& operator=(const EagerMode&) = delete;
};

/// Running anything on this thread in its scope is an error that names the trigger and the reason.
class HAMMOCK_API NoExecution {
 public:
  explicit NoExecution(std::string reason);
  ~NoExecution();
  NoExecution(const NoExecution&) = delete;
  NoExecution& operator=(const NoExecution&) = delete;
};

/// Compiling on this thread in its scope is an error that carries the explanation of the miss.
class HAMMOCK_API ExpectNoRecompile {
 public:
  explicit ExpectNoRecompile(std::string reason = "");
  ~ExpectNoRecompile();
  ExpectNoRecompile(const ExpectNoRecompile&) = delete;
  ExpectNoRecompile& operator=(const ExpectNoRecompile&) = delete;
};

}  // namespace hammock
