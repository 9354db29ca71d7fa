#include "runtime/step/budget.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <list>
#include <map>
#include <mutex>

#include "base/location_scope.h"
#include "base/never_destroyed.h"
#include "hammock/compiler/memory_plan.h"
#include "hammock/compiler/schedule.h"
#include "hammock/config.h"
#include "hammock/metric.h"
#include "ir/primitives.h"
#include "runtime/cache/compile_step.h"
#include "runtime/cache/walk.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/devices/code_settings.h"
#include "runtime/devices/memory_pressure.h"
#include "runtime/step/executor.h"
#include "trace/held_bytes.h"
#include "trace/hooks.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

constinit const metrics::DeclaredCounter kTrimIrGraph({
    .name = "TrimIrGraph",
    .doc = "Times that pending work was run because there was too much of it.",
});

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
/// Nodes from which a thread outside of steps looks for an op after which to run them.
constexpr int64_t kEnough = 2000;
constexpr size_t kWindow = 64;

constexpr uint64_t Power(uint64_t base, size_t exponent) {
  uint64_t result = 1;
  while (exponent-- > 0) result *= base;
  return result;
}

/// The last ops as one number: equal numbers, equal ops.
class Window {
 public:
  void Add(uint64_t op) {
    uint64_t& oldest = ops_[count_++ % kWindow];
    sum_ = sum_ * kBase + op - oldest * kOldest;
    oldest = op;
  }
  bool IsFull() const { return count_ >= kWindow; }
  uint64_t sum() const { return sum_; }

 private:
  static constexpr uint64_t kBase = 0x9e3779b97f4a7c15;
  static constexpr uint64_t kOldest = Power(kBase, kWindow);

  std::array<uint64_t, kWindow> ops_{};
  uint64_t sum_ = 0;
  size_t count_ = 0;
};

uint64_t OpOf(const Node& node) { return (node.hash().lo ^ node.location()) * 0xd1b54a32d192ed03; }

}  // namespace

/// A thread's record of its cuts.
class BudgetState {
 public:
  int64_t ended_at = -1;  // nodes that were recorded at the last end of a backward or an update

  /// Whether to cut at an end of this kind, with so many nodes pending.
  bool IsPlace(NaturalEnd end, LocationId line, int64_t nodes) {
    auto kind = static_cast<size_t>(end);
    uint32_t known = seen_ | seen_before_;
    seen_ |= 1u << kind;
    if (nodes < enough_ || known >> (kind + 1) != 0) return false;
    // The first time, a stronger end may still follow.
    constexpr int64_t kMany = 50000;
    bool is_known = (known >> kind & 1) != 0 || kind + 1 == kKinds;
    if (!is_known && nodes < kMany) return false;
    bool is_other = lines_[kind] != 0 && line != lines_[kind];
    if (is_other && nodes < kMany) return false;
    lines_[kind] = line;
    return true;
  }

  /// The same for an op.
  bool IsPlace(const Node& recorded, int64_t nodes) {
    window_.Add(OpOf(recorded));
    if (nodes < kEnough || !window_.IsFull() || (seen_ | seen_before_) != 0) return false;
    uint64_t now = window_.sum();
    if (candidate_ == 0 && nodes >= (cuts_[0] == 0 ? kEnough : 4 * kEnough)) {
      candidate_ = now;
      last_match_ = nodes;
      return false;
    }
    if (now != candidate_ && std::ranges::find(cuts_, now) == cuts_.end()) return false;
    // An inner loop matches at every turn. The first match after other ops is the outer loop's.
    int64_t since = nodes - std::max(last_match_, kEnough);
    last_match_ = nodes;
    return since >= static_cast<int64_t>(kWindow) || nodes >= 2 * kEnough;
  }

  /// The nodes from which an end is a place to cut.
  int64_t enough() const { return enough_; }
  /// Records whether the graph that was cut at an end had to be compiled.
  void NoteCompiled(bool compiled) {
    constexpr int kMostInARow = 3;
    compiled_in_a_row_ = compiled ? compiled_in_a_row_ + 1 : 0;
    if (compiled_in_a_row_ > kMostInARow) enough_ = 1;
  }

  void NoteCut() {
    if (window_.IsFull() && std::ranges::find(cuts_, window_.sum()) == cuts_.end()) {
      std::ranges::rotate(cuts_, cuts_.end() - 1);
      cuts_[0] = window_.sum();
    }
    seen_before_ = seen_;
    seen_ = 0;
    in_vain_ = 0;
    window_ = {};
    candidate_ = 0;
    last_match_ = 0;
    ended_at = -1;
  }
  /// Less than `least` was pending: how many more nodes to wait with the next look. Nothing at
  /// first, then longer and longer.
  int64_t NoteInVain(int64_t least) {
    int64_t wait = in_vain_;
    in_vain_ = std::min(2 * in_vain_ + least / 2, 16 * least);
    return wait;
  }

 private:
  static constexpr size_t kKinds = 4;
  uint32_t seen_ = 0, seen_before_ = 0;     // kinds since the last cut; between the two before
  std::array<LocationId, kKinds> lines_{};  // of the last cuts at such ends
  int64_t in_vain_ = 0;
  int64_t enough_ = kEnough;
  int compiled_in_a_row_ = 0;
  Window window_;
  std::array<uint64_t, 8> cuts_{};  // the windows before the last ones; 0: none
  uint64_t candidate_ = 0;          // a window that may come again
  int64_t last_match_ = 0;
};

namespace {

BudgetState& StateOf(ThreadContext& context) {
  if (!context.budget) context.budget = new BudgetState;  // contexts are never destroyed
  return *context.budget;
}

void ReadOptions(ThreadContext& context) {
  context.most_nodes = config::Get<config::kTrimGraphSize>();
  context.most_bytes = config::Get<config::kTrimGraphBytes>();
}

int64_t MostNodes() { return config::Get<config::kTrimGraphSize>(); }

/// Where the context looks next.
void SetNodesLook(ThreadContext& context) {
  int64_t most = MostNodes();
  bool never = most <= 0 || context.step_depth > 0;
  context.nodes_look = never ? kNever : std::min(most, kEnough - static_cast<int64_t>(kWindow));
}

void SetHeldLook(ThreadContext& context) {
  int64_t given = config::Get<config::kTrimGraphBytes>();
  context.held_look = given == 0  ? kNever
                      : given > 0 ? std::min(given / 2, kLittleMemory)
                                  : kLittleMemory;
}

// ---- Pending ops

/// Runs all that the thread has pending, unless it is less than `least`: what was recorded is an
/// upper bound, most of it may have run or have been dropped.
bool RunPending(ThreadContext& context, int64_t least, const char* trigger) {
  CountTraced(context);
  std::vector<Value> roots = Executor().PendingRoots(context, kNoDevice);
  int64_t pending;
  {
    std::lock_guard lock(Executor().graph_mutex);
    pending = CountPending(roots);
  }
  if (pending < least) {
    // At most half, so that counting is rare; rarer still where it was in vain before.
    context.traced_nodes = context.counted_nodes = std::min(pending, least / 2);
    SetNodesLook(context);
    if (context.nodes_look != kNever) context.nodes_look += StateOf(context).NoteInVain(least);
    return false;
  }
  metrics::Get<kTrimIrGraph>().Add();
  StateOf(context).NoteCut();
  ResetBudgets(context);
  RunUnits(context, roots, trigger);
  return true;
}

// ---- Memory

/// Bytes that pending work may take on the device.
int64_t BudgetOf(const DeviceEntry& device) {
  int64_t given = config::Get<config::kTrimGraphBytes>();
  if (given == 0) return kUnknownBytes;
  return given > 0 ? given : FreeBytes(MemoryOf(device));
}

/// Planned peaks by key, the latest last.
class Plans {
 public:
  /// With the graph mutex held by `lock`, which is released while a new plan is made.
  int64_t PeakOf(DeviceEntry& device, Walk& walk, GraphLock& lock) {
    Hash128 hash = walk.hash;
    std::vector<uint64_t> key(walk.key.words().begin(), walk.key.words().end());
    if (auto found = Find(hash, key)) return *found;
    Graph traced = GraphOf(walk);
    lock.unlock();
    LoweredStep lowered = LowerStep(device, traced);
    compiler::Schedule schedule = compiler::MakeSchedule(lowered.graph);
    std::vector<int64_t> scratch(schedule.commands.size());
    int64_t peak = compiler::PlanMemory(schedule, scratch).peak_bytes();
    Add({hash, std::move(key), peak});
    lock.lock();
    return peak;
  }

 private:
  struct Plan {
    Hash128 hash;
    std::vector<uint64_t> key;
    int64_t peak;
  };
  std::optional<int64_t> Find(const Hash128& hash, const std::vector<uint64_t>& key) {
    std::lock_guard lock(mutex_);
    for (const Plan& plan : plans_) {
      if (plan.hash == hash && plan.key == key) return plan.peak;
    }
    return std::nullopt;
  }
  void Add(Plan plan) {
    constexpr size_t kMost = 64;
    std::lock_guard lock(mutex_);
    if (plans_.size() == kMost) plans_.pop_front();
    plans_.push_back(std::move(plan));
  }

  std::mutex mutex_;
  std::list<Plan> plans_;
};

Plans& AllPlans() {
  static auto& plans = NeverDestroyed<Plans>();
  return plans;
}

int64_t BytesOf(const Node& node) {
  int64_t bytes = 0;
  for (int i = 0; i < node.num_outputs(); ++i) bytes += node.shape(i).bytes();
  return bytes;
}

bool IsView(Node* node) { return (NodeAccess::flags(node) & NodeAccess::kIsView) != 0; }

/// The values that a run of the walk's first nodes leaves for the rest, where they are the fewest
/// bytes. Looks at the middle half of the walk. With the graph mutex held.
std::vector<Value> SmallestCut(const Walk& walk) {
  const size_t count = walk.order.size();
  std::vector<size_t> last(count);  // node that needs it last; `count`: it is needed afterwards
  for (size_t i = count; i-- > 0;) {
    Node* node = walk.order[i];
    bool kept = node->references() > NodeAccess::walk_uses(node);
    if (kept && !IsAvailable(*node)) last[i] = count;
    if (IsAvailable(*node)) continue;
    for (const Node::Operand& operand : node->operands()) {
      if (!operand.node) continue;
      size_t& needed = last[walk.EntryOf(operand.node, operand.index)];
      needed = std::max(needed, IsView(node) ? last[i] : i);
    }
  }
  std::vector<int64_t> change(count + 1);  // of live bytes, from here on
  for (size_t i = 0; i < count; ++i) {
    if (IsAvailable(*walk.order[i]) || IsView(walk.order[i])) continue;
    int64_t bytes = BytesOf(*walk.order[i]);
    change[i] += bytes;
    change[last[i]] -= last[i] == count ? 0 : bytes;
  }
  size_t best = count;
  int64_t live = 0, fewest = kNever;
  for (size_t i = 0; i < count; ++i) {
    live += change[i];
    if (i < count / 4 || i > count - count / 4 || live >= fewest) continue;
    fewest = live;
    best = i;
  }
  std::vector<Value> roots;
  for (size_t i = 0; i <= best && i < count; ++i) {
    Node* node = walk.order[i];
    if (IsAvailable(*node) || IsView(node) || last[i] <= best) continue;
    roots.push_back({NodePtr(node), 0});
  }
  return roots;
}

/// Runs parts of what the roots need until the rest fits into `free` bytes.
void RunParts(DeviceEntry& device, std::span<const Value> roots, int64_t free, int depth) {
  constexpr int kDeepest = 8;
  std::vector<Value> part;
  {
    std::unique_lock lock(Executor().graph_mutex);
    Walk walk;
    RunWalk(roots, device.id, CodeSettingsId(), walk);
    if (walk.failed || walk.order.size() < 4 || depth == kDeepest) return;
    if (AllPlans().PeakOf(device, walk, lock) <= free) return;
    RunWalk(roots, device.id, CodeSettingsId(), walk);  // others may have walked meanwhile
    part = SmallestCut(walk);
  }
  if (part.empty()) return;
  RunParts(device, part, free, depth + 1);
  metrics::Get<kTrimIrGraph>().Add();
  // Failures have nothing to do with the op that used up the budget. The step goes on: what it
  // writes still happens together.
  Executor().Flush(part, {.trigger = "memory budget", .wait = false, .raise_failed = false});
  RunParts(device, roots, free, depth + 1);
}

void CheckMemory(ThreadContext& context, DeviceId id) {
  DeviceEntry& device = EntryOf(id);
  int64_t free = BudgetOf(device);
  if (free == kUnknownBytes) {
    context.held_look = kNever;
    return;
  }
  if (context.held_bytes < free / 2) {
    context.held_look = free / 2;
    return;
  }
  try {
    RunParts(device, Executor().PendingRoots(context, id), free, 0);
  } catch (const Error&) {
    // A graph that cannot be lowered says so where its values are read.
  }
  context.held_look = 2 * context.held_bytes;
}

/// Whether ops may be run that nobody has asked for.
bool MayRun(const ThreadContext& context) {
  return context.step_depth == 0 && context.baking == 0 && context.symbolic == 0 &&
         MostNodes() > 0 && context.forbid_execution.empty();
}

}  // namespace

void AtNaturalEnd(NaturalEnd end, LocationId line) {
  ThreadContext& context = Context();
  if (!MayRun(context)) return;
  BudgetState& state = StateOf(context);
  if (end == NaturalEnd::kRead && state.ended_at == context.traced_nodes) {
    RunPending(context, 1, "read");
    return;
  }
  if (end >= NaturalEnd::kBackward) state.ended_at = context.traced_nodes;
  if (!state.IsPlace(end, line, context.traced_nodes)) return;
  const uint64_t compiled = context.compiled_graphs;
  if (RunPending(context, state.enough(), "natural end")) {
    state.NoteCompiled(context.compiled_graphs != compiled);
  }
}

void MarkState(const Tensor& tensor) {
  TensorImpl* impl = tensor.impl();
  if (!impl || !impl->owner) return;
  impl->is_state = true;
  Context().new_state = true;
}

void RunNewState() {
  ThreadContext& context = Context();
  if (!context.new_state || !MayRun(context)) return;
  context.new_state = false;
  std::vector<Value> roots;
  {
    std::lock_guard graph(Executor().graph_mutex);
    std::lock_guard lock(context.lock);
    for (Link* link = context.pending.next; link != &context.pending; link = link->next) {
      auto* impl = static_cast<TensorImpl*>(link);
      if (!impl->is_state || impl->SharesMemory() || IsAvailable(*impl->node)) continue;
      roots.push_back({NodePtr(impl->node), impl->index});
    }
  }
  if (roots.empty()) return;
  OutsideOfCalls outside;  // else the caller's line would have had its first graph
  Executor().Flush(roots, {.trigger = "initial state", .wait = false, .raise_failed = false});
}

void CheckBudgets(ThreadContext& context, const Node& recorded) {
  // While execution is forbidden, the budget waits for the end of the scope.
  if (!context.forbid_execution.empty()) return;
  if (IsTimeToLook(context)) CheckMemory(context, recorded.device());
  if (context.nodes_look == 0) {
    ReadOptions(context);
    SetNodesLook(context);
  }
  if (context.traced_nodes < context.nodes_look) return;
  int64_t most = MostNodes();
  if (StateOf(context).IsPlace(recorded, context.traced_nodes)) {
    RunPending(context, kEnough, "repeated ops");
  } else if (context.traced_nodes >= most) {
    RunPending(context, most, "node budget");
  }
}

void ResetBudgets(ThreadContext& context) {
  CountTraced(context);
  context.traced_nodes = context.counted_nodes = 0;
  context.held_bytes = 0;
  ++context.held_epoch;
  ReadOptions(context);
  SetNodesLook(context);
  SetHeldLook(context);
}

}  // namespace hammock
