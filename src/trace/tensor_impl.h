#pragma once
/// The object that a Tensor handle points to, and the per-thread list of live ones.
///
/// Note [Ownership of pending values]: a tensor belongs to the list of the thread that traced its
/// present value. MarkStep and the budgets look at the calling thread's list only, so that keys
/// never depend on what other threads happen to be doing; SyncAllThreads looks at every list.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/cpu_relax.h"
#include "base/link.h"
#include "base/pool.h"
#include "hammock/metrics.h"
#include "hammock/tensor.h"
#include "ir/node_access.h"
#include "trace/alias.h"
#include "trace/write_unit.h"

namespace hammock {

/// For sections of a few instructions.
class SpinLock {
 public:
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire)) {
      while (locked_.load(std::memory_order_relaxed)) CpuRelax();
    }
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

struct ThreadContext;
class BudgetState;
class CheckpointRegion;
class MapTrace;

struct TensorImpl : Link, WriteTarget {
  std::atomic<uint32_t> references{1};
  uint32_t index = 0;
  Node* node = nullptr;             // owned; for a view, its value at `view->generation`
  std::unique_ptr<ViewState> view;  // null for a tensor with row-major memory of its own
  TapePtr tape;                     // history of `node`, for gradients
  TapePtr grad_slot;                // where `.grad` is kept
  ThreadContext* owner = nullptr;   // whose list it is in; null for symbolic tensors
  std::atomic<int64_t> id{0};       // given when first asked for
  int64_t held_bytes = 0;           // of its value, among its owner's held_bytes of `held_epoch`
  uint32_t held_epoch = 0;
  bool donated = false;
  bool undone = false;  // the unit of writes that made its value failed; see LeafEntry::grad
  bool host_is_current = false;
  bool is_state = false;       // see Note [Initial state]
  std::shared_ptr<void> host;  // elements that data_ptr has given out

  bool SharesMemory() const { return view && view->group; }
};

/// The tensors that one thread traced. Never destroyed; a new thread takes over one whose list is
/// empty.
struct ThreadContext {
  SpinLock lock;  // guards the lists and `node`, `view` and `owner` of their members
  Link pending;   // may have a value that is not computed
  Link settled;   // their value was a leaf or claimed by a step when last looked at
  std::vector<std::weak_ptr<AliasGroup>> written_groups;  // written since the last full step

  // Only the owning thread touches the rest.
  int64_t traced_nodes = 0;  // since the last full step or cut
  int64_t nodes_look = 0;    // from so many on, budgets are checked after every op
  int64_t held_bytes = 0;    // of values recorded since then that tensors and the tape hold
  int64_t held_look = 0;
  uint32_t held_epoch = 1;  // grows when held_bytes begins anew
  int64_t most_nodes = -2;  // the options by which the limits were last set
  int64_t most_bytes = -2;
  BudgetState* budget = nullptr;  // made when needed; src/runtime/step/budget.cpp
  int64_t counted_nodes = 0;      // of traced_nodes, by the counter TracedOps
  int64_t first_op_ns = 0;        // since the last count, where someone wants to know; 0: none
  int64_t last_op_ns = 0;
  int eager = 0;  // depth of guards
  int symbolic = 0;
  int baking = 0;                    // numbers become constants: expansions and gradients
  DeviceId home_device = kNoDevice;  // of nodes that have only numbers as operands
  bool grad_mode = true;
  std::optional<DType> autocast;                // of the innermost guard
  std::vector<NodePtr>* made_leaves = nullptr;  // of data, if someone wants to know
  CheckpointRegion* checkpoint = nullptr;       // whose region is being traced; src/autograd
  MapTrace* mapping = nullptr;                  // whose function is being traced; src/vmap
  std::vector<std::string> forbid_execution;    // reasons, innermost last
  std::vector<std::string> forbid_recompile;
  int step_depth = 0;  // of `step` scopes
  uint64_t compiled_graphs = 0;
  bool new_state = false;  // tensors were marked as state since it was last computed
  // Units of writes that no sync has started whole, oldest first; the last one may be open.
  std::vector<std::shared_ptr<WriteUnit>> units;
  bool in_use = true;
};

extern constinit thread_local ThreadContext* tls_context;
ThreadContext& MakeThreadContext();
inline ThreadContext& Context() { return tls_context ? *tls_context : MakeThreadContext(); }
/// Adds what was traced to the counter TracedOps, which so costs an op nothing.
void CountTraced(ThreadContext& context);
/// Every context there is, in order of creation.
std::vector<ThreadContext*> AllContexts();
bool HasEnded(const ThreadContext& context);  ///< the thread; another one may take it over

/// Set when the first context is made. Every thread makes its own before it touches a tensor.
extern metrics::Counter* created_tensors;

/// A new tensor with this value; takes over one reference of `node`.
Tensor NewTensor(Node* node, uint32_t index, bool settled);
/// The same for the recording of ops. `context` is that of the calling thread.
inline Tensor NewTensor(ThreadContext& context, Node* node, uint32_t index, bool settled,
                        std::unique_ptr<ViewState>&& view = nullptr) {
  TensorImpl* impl = new (pool::Allocate(sizeof(TensorImpl))) TensorImpl;
  impl->node = node;
  impl->index = index;
  impl->view = std::move(view);  // before other threads see it in the list
  if (node->device() != kNoDevice) {
    impl->owner = &context;
    std::lock_guard lock(context.lock);
    impl->InsertBefore(settled ? &context.settled : &context.pending);
  }
  created_tensors->Add();
  return Tensor::FromImpl(impl);
}
/// As above, with its history.
inline Tensor NewTensor(Value&& value, bool settled, std::unique_ptr<ViewState>&& view = nullptr) {
  Tensor result = NewTensor(Context(), value.node.release(), value.index, settled, std::move(view));
  result.impl()->tape = std::move(value.tape);
  return result;
}
/// Gives a tensor that shares its memory with no other a new value.
void SetNode(TensorImpl& impl, const Value& value);
void DestroyImpl(TensorImpl* impl);

[[noreturn]] void ThrowUndefined(const char* op);
[[noreturn, gnu::cold]] void ThrowUndefined(const char* op, const Location& at);
[[noreturn]] void ThrowDonated(const char* op, const TensorImpl& impl);

/// The node of a tensor's present value. `op` names the caller in errors.
inline Node* CurrentNode(const char* op, const Tensor& tensor) {
  TensorImpl* impl = tensor.impl();
  if (!impl) ThrowUndefined(op);
  if (impl->view && IsStale(*impl->view)) [[unlikely]]
    RefreshView(*impl);
  if (impl->donated) [[unlikely]]
    ThrowDonated(op, *impl);
  return impl->node;
}

/// While one lives, ops of this thread do or do not record history for gradients.
class GradModeScope {
 public:
  explicit GradModeScope(bool enabled) : before_(std::exchange(Context().grad_mode, enabled)) {}
  ~GradModeScope() { Context().grad_mode = before_; }
  GradModeScope(const GradModeScope&) = delete;
  GradModeScope& operator=(const GradModeScope&) = delete;

 private:
  bool before_;
};

/// While one lives, the numbers that ops of this thread meet are constants, and nodes of numbers
/// alone go to `device`: expansions while tracing, and gradients.
class BakingScope {
 public:
  explicit BakingScope(DeviceId device)
      : home_before_(std::exchange(Context().home_device, device)) {
    ++Context().baking;
  }
  ~BakingScope() {
    --Context().baking;
    Context().home_device = home_before_;
  }
  BakingScope(const BakingScope&) = delete;
  BakingScope& operator=(const BakingScope&) = delete;

 private:
  DeviceId home_before_;
};

/// While one lives, ops of this thread record nodes without a device: expansions and inference.
class SymbolicScope {
 public:
  SymbolicScope() { ++Context().symbolic; }
  ~SymbolicScope() { --Context().symbolic; }
  SymbolicScope(const SymbolicScope&) = delete;
  SymbolicScope& operator=(const SymbolicScope&) = delete;
};
Tensor SymbolicTensor(const Shape& shape);

}  // namespace hammock
