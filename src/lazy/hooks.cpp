#include "lazy/hooks.h"

#include <unordered_set>

#include "hammock/config.h"
#include "hammock/metrics.h"
#include "lazy/executor.h"
#include "lazy/record.h"
#include "lazy/walk.h"

namespace hammock {

namespace {

/// Bytes of roots that no pending op uses. What one does use may be gone before it is ever stored,
/// as a temporary of an expression is; a flush would store it.
int64_t BytesSureToBeStored(std::span<const Value> roots) {
  std::unordered_set<const Node*> used;  // looked up, never iterated
  std::vector<const Node*> stack;
  std::lock_guard lock(Executor().graph_mutex);
  for (const Value& root : roots) stack.push_back(root.node.get());
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (IsAvailable(*node)) continue;
    for (const Node::Operand& operand : node->operands()) {
      if (operand.node && used.insert(operand.node).second) stack.push_back(operand.node);
    }
  }
  int64_t bytes = 0;
  for (const Value& root : roots) {
    if (!used.contains(root.node.get())) bytes += root.shape().bytes();
  }
  return bytes;
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
  bool nodes = config::Get<config::kTrimGraphSize>() > 0 &&
               context.traced_nodes >= config::Get<config::kTrimGraphSize>();
  bool bytes = config::Get<config::kTrimGraphBytes>() > 0 &&
               context.traced_bytes >= config::Get<config::kTrimGraphBytes>();
  if (!nodes && !bytes) return;
  // While execution is forbidden, the budget waits for the end of the scope.
  if (!context.forbid_execution.empty()) return;
  std::vector<Value> roots = Executor().PendingRoots(context, kNoDevice);
  if (!nodes && BytesSureToBeStored(roots) < config::Get<config::kTrimGraphBytes>()) {
    context.traced_bytes = 0;  // looks again after as much
    return;
  }
  static metrics::Counter& trims = metrics::GetCounter("TrimIrGraph");
  trims.Add();
  ResetBudgets(context);
  // What fails has nothing to do with the op that used up the budget.
  Executor().Flush(
      roots,
      {.trigger = nodes ? "node budget" : "byte budget", .wait = false, .raise_failed = false});
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

void Write(const char* op, const Tensor& self, Value value) {
  ThreadContext& context = Context();
  TensorImpl& impl = *self.impl();
  if (context.grad_mode) value.tape = HistoryOfWrite(op, impl, value);
  auto write = [&] {
    WriteValue(op, impl, value);
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
