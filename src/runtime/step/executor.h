#pragma once
/// The executor behind LazyGraphExecutor: sync, run, roll back, read.
///
/// Note [Graph mutex]: one mutex guards the slots, operand lists, errors and walk marks of all
/// nodes. It is held while a sync walks and claims, and while a step's outcome is written back;
/// never while a method of a backend runs. Recording ops does not take it.
///
/// Note [A step is a transaction]: claiming puts placeholders into the slots of the outputs; nodes
/// keep their operands until the step has succeeded. A failure takes the placeholders out again, so
/// that every live tensor is what it was, and notes the error at the op that failed: walks that
/// meet it raise it, all others go on. Tensors that were written in place have the values from
/// before the step again; see Note [Units of writes].

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hammock/executor.h"
#include "runtime/cache/computation_cache.h"
#include "runtime/cache/walk.h"
#include "runtime/devices/backend_registry.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace distributed {
class StepAgreements;
}

/// The graph mutex. It counts who has held it, so that a thread which let go of it for a moment
/// knows whether anything can have changed.
class GraphMutex {
 public:
  void lock() {
    mutex_.lock();
    ++holders_;
  }
  void unlock() { mutex_.unlock(); }
  /// While it is held.
  uint64_t holders() const { return holders_; }

 private:
  std::mutex mutex_;
  uint64_t holders_ = 0;
};
using GraphLock = std::unique_lock<GraphMutex>;

/// Lets go of the graph mutex, so that a backend may be called.
class WithoutGraphLock {
 public:
  explicit WithoutGraphLock(GraphLock& lock) : lock_(lock), holders_(lock.mutex()->holders()) {
    lock_.unlock();
  }
  /// Takes it again; false if someone else has held it meanwhile, so that walks are out of date.
  [[nodiscard]] bool Lock() {
    lock_.lock();
    return lock_.mutex()->holders() == holders_ + 1;
  }

 private:
  GraphLock& lock_;
  const uint64_t holders_;
};

struct SyncOptions {
  const char* trigger = "sync";
  bool wait = true;
  bool full_step = false;  ///< dying inputs may be donated
  bool one_device = true;  ///< all roots of the sync are on one device
  bool raise_failed =
      true;  ///< raise an error that a root carries, rather than leave that root out
  std::span<const std::string> devices = {};  ///< the replication list, where one was given
};

/// One run of a compiled step. Its lists keep their memory when it is used again.
struct Step {
  CompiledStepPtr compiled;
  std::vector<BackendDataPtr> arguments;  // behind the parameters: Note [Readers under way]
  std::vector<bool> donated;              // by parameter
  std::vector<NodePtr> output_nodes;      // distinct
  // One per result; owned by the slots of output_nodes, so that who looks at a slot's count of
  // references sees users only.
  std::vector<lazy::BackendData*> placeholders;
  std::vector<Node*> order;  // of the walk; alive while output_nodes keep their operands
  Lane* lane = nullptr;      // where it runs
  uint64_t turn = 0;         // among the steps of its lane, or kNoTurn
  uint64_t ordered = 0;      // among the steps of its device with ordered effects, or kNoTurn
  NodePtr recipe;            // of a replay: the one node that stands for its graph
  bool own_failure = false;  // it failed by itself, not by an argument; set before its placeholders
  bool is_all = false;       // the roots of its sync need nothing else
  std::vector<Node*> dropped;                               // operands to let go
  int looks = 0;                                            // of TakeUnused, while it is in flight
  ThreadContext* owner = nullptr;                           // of the thread that recorded it
  std::vector<WriteUnitPtr> units;                          // whose values it computes
  std::shared_ptr<distributed::StepAgreements> agreements;  // null: it has no collectives

  /// One of this thread's steps that have ended, or a new one.
  static std::shared_ptr<Step> New();
  /// Keeps a step that has ended, to which nobody else refers.
  static void Recycle(std::shared_ptr<Step> step);
  /// The data in the slots of its outputs.
  std::vector<BackendDataPtr> Results() const;
  /// The traced node that `origin` names; null where it is not known.
  Node* TracedNode(NodeId origin) const;

 private:
  void Clear();
};
using StepPtr = std::shared_ptr<Step>;

/// Note [Nested steps]: the body of a custom call may itself use tensors of the device that runs
/// it. Its thread holds the device, so its steps run at once, without a turn, and need nothing that
/// still waits for the device: that would wait for the call itself, and is refused instead.
inline constexpr uint64_t kNoTurn = ~uint64_t{0};
/// Whether the calling thread is running a computation of `device`, as the body of a custom call
/// is.
bool RunsHere(const DeviceEntry& device);
/// Raises an error if waiting for `data` would never end; see Note [Nested steps].
void RefuseToWait(const DeviceEntry& device, const BackendDataPtr& data);

/// While one lives, errors that the thread meets are raised but count as not heard of: nothing is
/// undone, and the next barrier of the thread that recorded the failed op raises them.
class UnheardErrors {
 public:
  UnheardErrors() : outer_(std::exchange(on_, true)) {}
  ~UnheardErrors() { on_ = outer_; }
  UnheardErrors(const UnheardErrors&) = delete;
  UnheardErrors& operator=(const UnheardErrors&) = delete;
  static bool AreOn() { return on_; }

 private:
  static inline constinit thread_local bool on_ = false;
  const bool outer_;
};

class StepExecutor {
 public:
  GraphMutex graph_mutex;
  ComputationCache cache;

  /// Computes roots (of any devices); with `wait`, returns when they are ready and raises their
  /// errors.
  void Sync(std::span<const Value> roots, const SyncOptions& options);
  /// As a sync that does not wait, but raises nothing: what cannot be started is left pending, and
  /// its error is raised when it is read.
  void Flush(std::span<const Value> roots, const SyncOptions& options);
  HostTensor Read(const Tensor& tensor, const char* trigger = "read");
  std::vector<HostTensor> Read(std::span<const Tensor> tensors, const char* trigger = "read");
  /// The data of a value, computing it first if needed; ready.
  BackendDataPtr Materialize(const Value& value, const char* trigger);
  /// A leaf on `to` with a copy of the value, directly if one backend has both devices.
  NodePtr CopyToDevice(const Tensor& tensor, DeviceId to, LocationId location);
  /// The pending values of a thread's tensors, by device (kNoDevice: all).
  std::vector<Value> PendingRoots(ThreadContext& context, DeviceId device);

  /// Runs a compiled step that was not walked. Its results go to the first outputs of `outputs`,
  /// whose operand is `recipe`, so that a failure leaves something to try again. An argument that
  /// is `released` loses one more reference when the call returns: its tensor is given another
  /// value, which is a write of `unit`.
  void Run(const CompiledStepPtr& compiled, std::vector<BackendDataPtr> arguments,
           std::vector<NodePtr> outputs, NodePtr recipe, const std::vector<bool>& released,
           const WriteUnitPtr& unit);
  /// Raises an error that no barrier needs to raise any more, having undone what failed by it, and
  /// what else has failed at its line for the calling thread: one bad batch is one error.
  [[noreturn]] void RaiseSeen(const std::shared_ptr<const Error>& error);
  /// Undoes what the thread has written since its last step.
  void UndoOpenUnit(ThreadContext& context);
  /// Explains a miss, compiles and adds the result to the cache. Threads that want the same graph
  /// meanwhile wait for it, and get its error if it fails.
  CompiledStepPtr Compile(DeviceEntry& device, const Hash128& hash, std::vector<uint64_t> key,
                          Graph traced, int64_t kept, const SyncOptions& options);
  /// Makes an instance of a general step, which the cache keeps besides its entries. Null where the
  /// backend cannot do it; the general step then covers these sizes no longer.
  CompiledStepPtr Instantiate(DeviceEntry& device, const Hash128& hash, GeneralMatch match);

  void Drain(DeviceEntry& device);
  /// Waits for roots that are under way; whether all of them are computed then.
  bool AwaitReady(std::span<const Value> roots);
  /// Raises the oldest error of the device that nobody has seen; of `owner`'s steps if given, else
  /// one that a barrier of the calling thread is to raise.
  void RaiseUnseen(DeviceEntry& device, const ThreadContext* owner = nullptr);
  /// The same for all devices.
  void RaiseUnseenOf(const ThreadContext& owner);
  /// A sealed unit whose values a sync was to compute: false if it is not known what becomes of
  /// them. If they were not started, the unit has failed for `reason`, or for that of an op.
  bool Close(const WriteUnitPtr& unit, std::shared_ptr<const Error> reason = nullptr);

  /// The walk and traced graph of values, for looking.
  Graph TraceOf(std::span<const Value> roots, Hash128* hash);
  std::vector<CompileMiss> Misses();
  void AddMiss(CompileMiss miss);

 private:
  void SyncDevice(DeviceEntry& device, std::span<const Value> roots, const SyncOptions& options);
  CompiledStepPtr CompileNow(DeviceEntry& device, const Hash128& hash,
                             const std::vector<uint64_t>& key, Graph traced, int64_t kept,
                             const SyncOptions& options);
  /// With the graph mutex held: the step's position among others. `nested` ones run at once.
  void TakeTurns(DeviceEntry& device, Step& step, bool nested);
  /// With the graph mutex held: uploads what is missing. False, without the mutex, if another
  /// thread held it meanwhile, so that the walk is out of date.
  bool BindParameters(DeviceEntry& device, Walk& walk, GraphLock& lock);
  /// Likewise makes what the outputs' slots will hold.
  bool MakePlaceholders(DeviceEntry& device, const Walk& walk, GraphLock& lock,
                        std::vector<BackendDataPtr>& placeholders);
  StepPtr Claim(DeviceEntry& device, Walk& walk, CompiledStepPtr compiled,
                std::vector<BackendDataPtr> placeholders, const SyncOptions& options);
  /// With the graph mutex held: the step computes values of units and uses those of others, which
  /// wrote `parameters`. Whether it may overwrite what its units remember.
  bool JoinUnits(Step& step, UnitSpan units, std::span<Node* const> parameters, bool is_whole);
  /// True if it ran here to its end, so that nobody else refers to the step.
  bool Submit(DeviceEntry& device, const StepPtr& step, bool wait);
  void Enqueue(DeviceEntry& device, const StepPtr& step);
  void Execute(const StepPtr& step);
  /// An asynchronous backend has finished one step more.
  void Landed(DeviceEntry& device);
  void ExecuteSegments(Step& step, std::vector<BackendDataPtr>& results);
  /// All results are set: measures, then succeeds or fails.
  void Finish(Step& step, std::vector<BackendDataPtr>& results,
              std::chrono::steady_clock::time_point start);
  void Succeed(Step& step);
  /// The step has ended and refers to its outputs no longer. They are destroyed here if nobody
  /// does.
  void LetGo(Step& step);
  void Fail(Step& step, std::shared_ptr<const Error> error, NodeId node, bool inherited);
  /// Walks, compiles and claims; null if the roots are computed or under way. Roots that are known
  /// to fail are left out of `roots` (which then is `healthy`) where the options say so.
  StepPtr Start(DeviceEntry& device, std::span<const Value>& roots, std::vector<Value>& healthy,
                const SyncOptions& options);
  /// The value of a leaf that is not on its device yet; undefined for everything else.
  HostTensor HostLeafOf(const Value& value);
  /// Waits for the roots and the step; the first error, if any.
  std::shared_ptr<const Error> Await(DeviceEntry& device, std::span<const Value> roots,
                                     const StepPtr& step, std::span<const BackendDataPtr> results);
  std::vector<Value> Healthy(std::span<const Value> roots);
  /// With the graph mutex held: notes why `outputs` cannot be computed together.
  void NoteFailure(DeviceEntry& device, std::span<const NodePtr> outputs,
                   const std::shared_ptr<const Error>& error);
  void AddUnseen(DeviceEntry& device, const ThreadContext* owner,
                 const std::shared_ptr<const Error>& error);
  void ForgetUnseen(DeviceEntry& device, const std::shared_ptr<const Error>& error);
  /// Undoes what failed by an error that is raised now; how many steps.
  int Undo(const std::shared_ptr<const Error>& error);
  int UndoOthers(const Error& raised);
  /// With the graph mutex held: what becomes of a failed step's units.
  void FailUnits(Step& step, const std::shared_ptr<const Error>& error, bool is_known);

  struct Compiling;
  std::mutex compiling_mutex_;
  std::condition_variable compiled_;
  std::vector<std::shared_ptr<Compiling>> compiling_;

  std::atomic<int> unseen_errors_{0};  // of all devices
  std::mutex misses_mutex_;
  std::vector<CompileMiss> misses_;
  int64_t miss_count_ = 0;
};

StepExecutor& Executor();
/// A cut outside of steps: starts `roots`, all that the thread has pending, as one unit of writes.
/// Raises nothing.
void RunUnits(ThreadContext& context, std::span<const Value> roots, const char* trigger);
/// The work is forbidden here, or the process ends: nothing has failed.
bool IsForbidden(const Error& error);
/// DeviceError (kForked) in a child of a process that had started the runtime.
void CheckNotForked();

/// For tests: hashes are cut to these bits before they are looked up.
void SetHashMaskForTesting(uint64_t mask);

/// How many refer to a node besides the step that computes it. With the graph mutex held.
uint32_t ReferencesTo(const Node& node);
/// Whether a node's data may be given away if nobody else needs it.
bool MayDonate(const Node& node, const lazy::BackendData& data, const DeviceEntry& device);

/// The host value of a leaf that is not on its device yet.
HostTensor HostValue(const Node* node);
/// With the option `check_borrowed`: ValueError where a leaf's borrowed memory has changed.
void CheckBorrowed(const Node& node);
/// Uploads the values of leaves, all at once, and measures that. Without the graph mutex.
std::vector<BackendDataPtr> UploadLeaves(DeviceEntry& device,
                                         const std::vector<HostTensor>& values);
/// Gives leaves their data, unless another thread was faster; host copies that are not needed to
/// get it back are dropped. With the graph mutex held.
void FillLeaves(std::span<const NodePtr> leaves, std::span<const BackendDataPtr> data);

/// Compiles a traced graph for a device: lowering, partition, backend compilation.
CompiledStepPtr CompileStep(DeviceEntry& device, const Graph& traced);

/// Why `traced` is not in the cache.
CompileMiss ExplainMiss(StepExecutor& executor, DeviceEntry& device, const Hash128& hash,
                        const Graph& traced);

/// Writes the graph of a sync to `save_tensors_file`, where that is set.
void SaveGraph(const Graph& traced, const Hash128& hash, DeviceEntry& device, const char* trigger);

/// Wraps whatever is being handled in an Error; what is one already is cloned.
std::shared_ptr<Error> CurrentError(ErrorCode code, const std::string& what);

}  // namespace hammock
