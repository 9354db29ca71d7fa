#include "trace/hooks.h"

#include "runtime/devices/backend_calls.h"
#include "runtime/step/budget.h"
#include "runtime/step/executor.h"
#include "trace/record.h"

namespace hammock {

void AfterOpSlow(ThreadContext& context, const Tensor& result, bool eager) {
  if (context.mapping) return;  // values of one sample are never computed
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

void ComputeWritten(const Value& value) {
  if (Context().mapping) return;
  Executor().Sync(std::span(&value, 1), {.trigger = "eager op", .wait = true});
}

}  // namespace hammock
