#include "lazy/hooks.h"

#include <algorithm>
#include <unordered_set>

#include "hammock/config.h"
#include "hammock/metrics.h"
#include "lazy/executor.h"
#include "lazy/record.h"
#include "lazy/walk.h"

namespace hammock {

namespace {

/// What was recorded is an upper bound of what is pending, which is counted when it is reached:
/// most may have run or have been dropped.
struct Budget {
  int64_t limit;  // 0: none
  int64_t used;

  bool IsUsed() const { return limit > 0 && used >= limit; }
  /// To go on from. At most half, so that counting is rare.
  int64_t Kept() const { return limit > 0 ? std::min(used, limit / 2) : 0; }
};

struct Pending {
  int64_t nodes = 0;
  /// Of results that tensors hold and no pending op uses. What one does use may be gone before it
  /// is stored, as a temporary of an expression is.
  int64_t bytes = 0;
};

Pending CountPending(std::span<const Value> roots) {
  Pending pending;
  std::unordered_set<const Node*> seen, used;  // looked up, never iterated
  std::vector<const Node*> stack;
  auto visit = [&](const Node* node) {
    if (seen.insert(node).second && !IsAvailable(*node)) stack.push_back(node);
  };
  std::lock_guard lock(Executor().graph_mutex);
  for (const Value& root : roots) visit(root.node.get());
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    ++pending.nodes;
    for (const Node::Operand& operand : node->operands()) {
      if (!operand.node) continue;
      used.insert(operand.node);
      visit(operand.node);
    }
  }
  for (const Value& root : roots) {
    if (!used.contains(root.node.get())) pending.bytes += root.shape().bytes();
  }
  return pending;
}

}  // namespace

void AfterOpSlow(ThreadContext& context, const Tensor& result, bool eager) {
  if (eager) {
    Value value = ValueOf("eager", result);
    if (value.node->device() != kNoDevice) {
      Executor().Sync(std::span(&value, 1), {.trigger = "eager op", .wait = true});
    }
    ResetBudgets(context);
    return;
  }
  // While execution is forbidden, the budget waits for the end of the scope.
  if (!context.forbid_execution.empty()) return;
  Budget nodes{config::Get<config::kTrimGraphSize>(), context.traced_nodes};
  Budget bytes{config::Get<config::kTrimGraphBytes>(), context.traced_bytes};
  if (!nodes.IsUsed() && !bytes.IsUsed()) return;
  ResetBudgets(context);
  std::vector<Value> roots = Executor().PendingRoots(context, kNoDevice);
  Pending pending = CountPending(roots);
  nodes.used = pending.nodes;
  bytes.used = pending.bytes;
  if (!nodes.IsUsed() && !bytes.IsUsed()) {
    context.traced_nodes = context.counted_nodes = nodes.Kept();
    context.traced_bytes = bytes.Kept();
    return;
  }
  static metrics::Counter& trims = metrics::GetCounter("TrimIrGraph");
  trims.Add();
  // What fails has nothing to do with the op that used up the budget.
  Executor().Flush(roots, {.trigger = nodes.IsUsed() ? "node budget" : "byte budget",
                           .wait = false,
                           .raise_failed = false});
}

Value WrittenValue(const TensorImpl& impl) {
  if (impl.SharesMemory()) return BaseValue(impl.view->group);
  return {NodePtr(impl.node), impl.index, impl.tape};
}

void Unwrite(TensorImpl& impl, const Value& written, const Value& old) {
  if (!impl.SharesMemory()) {
    SetNode(impl, old);
    impl.tape = old.tape;
    return;
  }
  AliasGroup& group = *impl.view->group;
  std::lock_guard lock(group.mutex);
  if (group.base != written) return;
  group.base = old;
  group.generation.fetch_add(1);
}

void Write(const char* op, const Tensor& self, Value value, bool is_shared) {
  ThreadContext& context = Context();
  TensorImpl& impl = *self.impl();
  if (context.grad_mode) value.tape = HistoryOfWrite(op, impl, value);
  auto write = [&] {
    WriteValue(op, impl, value, is_shared);
    if (context.grad_mode) impl.tape = value.tape;
  };
  bool eager = config::Get<config::kEager>() || context.eager > 0;
  if (!eager || context.symbolic > 0) return write();
  Value old = WrittenValue(impl);
  write();
  Value written = WrittenValue(impl);
  try {
    Executor().Sync(std::span(&written, 1), {.trigger = "eager op", .wait = true});
  } catch (...) {
    Unwrite(impl, written, old);
    throw;
  }
}

}  // namespace hammock
