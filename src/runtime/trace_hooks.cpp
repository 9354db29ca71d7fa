#include "trace/hooks.h"

#include "hammock/config.h"
#include "runtime/backend_calls.h"
#include "runtime/budget.h"
#include "runtime/executor.h"
#include "trace/record.h"

namespace hammock {

void AfterOpSlow(ThreadContext& context, const Tensor& result, bool eager) {
  if (!eager) return CheckBudgets(context, *result.impl()->node);
  Value value = ValueOf("eager", result);
  if (value.node->device() != kNoDevice) {
    Executor().Sync(std::span(&value, 1), {.trigger = "eager op", .wait = true});
  }
  ResetBudgets(context);
}

HostTensor ReadElements(const Tensor& tensor, const char* trigger) {
  return Executor().Read(tensor, trigger);
}

bool IsPendingValue(const Tensor& tensor) { return LazyGraphExecutor::Get()->IsPending(tensor); }

NodePtr CopyToDevice(const Tensor& tensor, DeviceId to, LocationId location) {
  return Executor().CopyToDevice(tensor, to, location);
}

void SeedBackends(uint64_t seed) {
  const lazy::BackendImplInterface* told = nullptr;
  for (const DeviceEntry* entry : AllDevices()) {
    // Devices of one backend are neighbours.
    if (std::exchange(told, entry->backend) == entry->backend) continue;
    CallBackend(*entry, "SetRngSeed", [&](auto& backend) { backend.SetRngSeed(seed); });
  }
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
