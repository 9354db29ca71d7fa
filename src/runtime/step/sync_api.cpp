/// The running half of LazyGraphExecutor, the scopes, and what happens at the end.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <optional>

#include "base/log.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/executor.h"
#include "hammock/interrupt.h"
#include "hammock/metric.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "runtime/cache/saved_step.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/step/budget.h"
#include "runtime/step/closures.h"
#include "runtime/step/executor.h"
#include "runtime/step/settle_units.h"
#include "runtime/step/step_collectives.h"
#include "trace/hooks.h"
#include "trace/record.h"

namespace hammock {

namespace {

constinit const metrics::DeclaredCounter kMarkStep({
    .name = "MarkStep",
    .doc = "Steps: `step` and `mark_step`.",
});

std::vector<Value> ValuesOf(const char* what, std::span<const Tensor> tensors) {
  std::vector<Value> values;
  for (const Tensor& tensor : tensors) {
    Value value = ValueOf(what, tensor);
    if (!value) ThrowUndefined(what);
    values.push_back(std::move(value));
  }
  return values;
}

DeviceId IdOf(const Device* device) { return device ? device->id() : kNoDevice; }

std::vector<DeviceEntry*> Selected(std::span<const Device> devices) {
  if (devices.empty()) return AllDevices();
  std::vector<DeviceEntry*> entries;
  for (const Device& device : devices) entries.push_back(&EntryOf(device.id()));
  return entries;
}

}  // namespace

LazyGraphExecutor* LazyGraphExecutor::Get() {
  static LazyGraphExecutor instance;
  return &instance;
}

void LazyGraphExecutor::SyncTensorsGraph(std::span<const Tensor> tensors, bool wait, Location at) {
  LocationScope scope(at);
  Executor().Sync(ValuesOf("sync", tensors), {.trigger = "sync", .wait = wait});
}

void LazyGraphExecutor::SyncLiveTensorsGraph(const Device* device,
                                             std::span<const std::string> devices, bool wait,
                                             Location at) {
  LocationScope scope(at);
  for (const std::string& name : devices) Device{name};
  auto roots = Executor().PendingRoots(Context(), IdOf(device));
  Executor().Sync(
      roots,
      {.trigger = "sync of live tensors", .wait = wait, .raise_failed = false, .devices = devices});
}

void LazyGraphExecutor::SyncAllThreads(const Device* device, bool wait, Location at) {
  LocationScope scope(at);
  std::vector<Value> roots;
  for (ThreadContext* context : AllContexts()) {
    for (Value& root : Executor().PendingRoots(*context, IdOf(device)))
      roots.push_back(std::move(root));
  }
  Executor().Sync(roots, {.trigger = "sync of all threads", .wait = wait, .raise_failed = false});
}

namespace {

/// Computes all that the thread has pending. Its units of writes are sealed; those that were
/// started, and those that cannot be computed, leave its list.
void SyncUnits(ThreadContext& context, const Device* device, bool wait) {
  auto close = [&](std::shared_ptr<const Error> reason) {
    std::erase_if(context.units,
                  [&](const WriteUnitPtr& unit) { return Executor().Close(unit, reason); });
  };
  SealUnit(context);
  {
    std::lock_guard lock(Executor().graph_mutex);
    MarkWritten(context.units);
  }
  std::vector<Value> roots = Executor().PendingRoots(context, IdOf(device));
  SyncOptions options{
      .trigger = "mark_step", .wait = false, .full_step = true, .raise_failed = false};
  try {
    Executor().Sync(roots, options);
  } catch (...) {
    std::shared_ptr<const Error> error = CurrentError(ErrorCode::kExecute, "mark_step");
    close(IsForbidden(*error) ? nullptr : error);
    Executor().RaiseSeen(error);
  }
  close(nullptr);
  SettleIdle();
  if (!wait || Executor().AwaitReady(roots)) return;
  // Something failed, and what does not depend on it was not computed either.
  options.wait = true;
  try {
    Executor().Sync(roots, options);
  } catch (...) {
    close(nullptr);
    throw;
  }
  close(nullptr);
  Executor().RaiseUnseenOf(context);
}

}  // namespace

void RunUnits(ThreadContext& context, std::span<const Value> roots, const char* trigger) {
  SealUnit(context);
  {
    std::lock_guard lock(Executor().graph_mutex);
    MarkWritten(context.units);
  }
  // Failures have nothing to do with the op that used up the budget.
  Executor().Flush(roots,
                   {.trigger = trigger, .wait = false, .full_step = true, .raise_failed = false});
  std::erase_if(context.units, [&](const WriteUnitPtr& unit) { return Executor().Close(unit); });
  SettleIdle();
}

namespace {

void SyncStep(const Device* device, bool wait) {
  metrics::Get<kMarkStep>().Add();
  ThreadContext& context = Context();
  ResetBudgets(context);
  SyncUnits(context, device, wait);
  RunStepClosures();
}

}  // namespace

void LazyGraphExecutor::MarkStep(const Device* device, bool wait, Location at) {
  LocationScope scope(at);
  if (device) {
    Executor().RaiseUnseen(EntryOf(device->id()), &Context());
  } else {
    Executor().RaiseUnseenOf(Context());
  }
  SyncStep(device, wait);
}

StepScope::StepScope(Location at) : exceptions_(std::uncaught_exceptions()) {
  LocationScope scope(at);
  ThreadContext& context = Context();
  Executor().RaiseUnseenOf(context);
  RunNewState();
  if (context.step_depth++ == 0) SealUnit(context);
  context.nodes_look = 0;  // other budgets hold in a step than outside
}

StepScope::~StepScope() {
  if (std::uncaught_exceptions() > exceptions_) Abandon();
  ThreadContext& context = Context();
  --context.step_depth;
  context.nodes_look = 0;
}

void StepScope::Mark(Location at) {
  LocationScope scope(at);
  SyncStep(nullptr, false);
}

void StepScope::Abandon() {
  ThreadContext& context = Context();
  if (context.step_depth != 1) return;
  Executor().UndoOpenUnit(context);
  AbandonCollectives();
}

void LazyGraphExecutor::WaitDeviceOps(std::span<const Device> devices, Location at) {
  LocationScope scope(at);
  CheckNotForked();
  auto entries = Selected(devices);
  for (DeviceEntry* entry : entries) Executor().Drain(*entry);
  for (DeviceEntry* entry : entries) Executor().RaiseUnseen(*entry);
  for (DeviceEntry* entry : entries) {
    CallBackend(*entry, "WaitForDevice",
                [&](auto& backend) { backend.WaitForDevice(entry->device); });
  }
}

void LazyGraphExecutor::DeviceBarrier(const Device& device, Location at) {
  WaitDeviceOps(std::span(&device, 1), at);
}

std::vector<HostTensor> LazyGraphExecutor::GetTensors(std::span<const Tensor> tensors,
                                                      Location at) {
  LocationScope scope(at);
  return Executor().Read(tensors);
}

namespace {

/// Queued and running steps end, or are given up at `end`; whether all have ended. A custom call
/// that ends the process does not wait for itself.
bool EndSteps(process_exit::TimePoint end) {
  bool ended = true;
  for (DeviceEntry* entry : AllDevices()) {
    for (Lane* lane : LanesOf(*entry)) ended &= lane->queue.Stop(end);
  }
  ended &= process_exit::Run::WaitForOthers(end);
  for (DeviceEntry* entry : AllDevices()) {
    ended &= process_exit::PollUntil(
        end, [&] { return RunsHere(*entry) || entry->in_flight.load() == 0; });
  }
  return ended;
}

}  // namespace

bool AwaitSteps() {
  const process_exit::TimePoint end = std::chrono::steady_clock::now() + process_exit::kGrace;
  auto is_empty = [](const Lane* lane) { return lane->queue.size() == 0; };
  auto is_idle = [&](DeviceEntry* entry) {
    return entry->in_flight.load() == 0 && std::ranges::all_of(LanesOf(*entry), is_empty);
  };
  return process_exit::PollUntil(end, [&] { return std::ranges::all_of(AllDevices(), is_idle); }) &&
         process_exit::Run::WaitForOthers(end);
}

void LazyGraphExecutor::PrepareToExit() {
  try {
    CheckNotForked();
  } catch (const Error&) {
    return;  // a forked child has no threads to end
  }
  bool ended = EndSteps(process_exit::GraceEnd());
  if (!ended) {
    process_exit::CancelRuns();
    ended = EndSteps(process_exit::Limit());
  }
  for (DeviceEntry* entry : AllDevices()) {
    std::lock_guard lock(entry->error_mutex);
    for (const DeviceEntry::UnseenError& unseen : entry->unseen_errors) {
      Log(LogLevel::kWarn, "nothing has read or waited for a step that failed: {}",
          unseen.error->what());
    }
  }
  if (!ended) return;  // a backend that still runs cannot be told to end
  for (const std::string& name : lazy::BackendNames()) {
    try {
      lazy::getBackend(name)->PrepareToExit();
    } catch (...) {
      Log(LogLevel::kError, "PrepareToExit of backend {}: {}", name,
          CurrentError(ErrorCode::kDevice, name)->what());
    }
  }
}

std::vector<Tensor> LazyGraphExecutor::GetLiveTensors(const Device* device) {
  std::vector<Tensor> tensors;
  for (ThreadContext* context : AllContexts()) {
    std::lock_guard lock(context->lock);
    for (Link* list : {&context->pending, &context->settled}) {
      for (Link* link = list->next; link != list; link = link->next) {
        auto* impl = static_cast<TensorImpl*>(link);
        if (device && impl->node->device() != device->id()) continue;
        // A handle that is just being destroyed has no references left.
        uint32_t references = impl->references.load();
        while (references > 0 &&
               !impl->references.compare_exchange_weak(references, references + 1)) {
        }
        if (references > 0) tensors.push_back(Tensor::FromImpl(impl));
      }
    }
  }
  return tensors;
}

bool LazyGraphExecutor::IsPending(const Tensor& tensor) {
  Value value = ValueOf("is_pending", tensor);
  if (!value) ThrowUndefined("is_pending");
  std::lock_guard lock(Executor().graph_mutex);
  // A view of a value that is there has nothing to wait for.
  Node* node = value.node.get();
  while (!IsAvailable(*node) && (NodeAccess::flags(node) & NodeAccess::kIsView) &&
         &node->op() != &ops::kCall) {
    node = node->operands()[0].node;
  }
  return !IsAvailable(*node);
}

void LazyGraphExecutor::ClearErrors(const Tensor& tensor) {
  Value value = ValueOf("ClearErrors", tensor);
  if (!value) ThrowUndefined("ClearErrors");
  std::lock_guard lock(Executor().graph_mutex);
  Walk walk;
  RunWalk(std::span(&value, 1), value.node->device(), 0, walk);
  for (Node* node : walk.order) {
    if (LeafPayload* payload = NodeAccess::payload(node)) {
      if (!payload->undone) payload->error = nullptr;
      payload->failed_step = nullptr;
    }
  }
}

void mark_step(bool wait, Location at) { LazyGraphExecutor::Get()->MarkStep(nullptr, wait, at); }
void mark_step(const Device& device, bool wait, Location at) {
  LazyGraphExecutor::Get()->MarkStep(&device, wait, at);
}
void sync_multi(const std::vector<Tensor>& tensors, Location at) {
  LazyGraphExecutor::Get()->SyncTensorsGraph(tensors, true, at);
}
void wait_device_ops(const std::vector<Device>& devices, Location at) {
  LazyGraphExecutor::Get()->WaitDeviceOps(devices, at);
}

void donate(Tensor& tensor, Location at) {
  LocationScope scope(at);
  Node* node = CurrentNode("donate", tensor);
  TensorImpl& impl = *tensor.impl();
  if (impl.SharesMemory()) {
    Throw(ErrorCode::kValue,
          "donate: the tensor shares its memory with views; donate it before taking views of it");
  }
  if (node->device() == kNoDevice)
    Throw(ErrorCode::kValue, "donate: the tensor is symbolic and has no memory");
  LazyGraphExecutor::Get()->SyncTensorsGraph(std::span(&tensor, 1), false);
  {
    std::lock_guard lock(Executor().graph_mutex);
    NodeAccess::MakePayload(node).donated = true;
  }
  // The handle lets go of the value and keeps its type: only ops recorded before still need it.
  const Shape type = node->shape(static_cast<int>(impl.index));
  ForgetWrites(impl);
  SetNode(impl, {Node::Make(ops::kDeviceData, {}, {}, std::span(&type, 1), node->device(),
                            node->location()),
                 0});
  impl.donated = true;
}

EagerMode::EagerMode() { ++Context().eager; }
EagerMode::~EagerMode() { --Context().eager; }
NoExecution::NoExecution(std::string reason) {
  Context().forbid_execution.push_back(std::move(reason));
}
NoExecution::~NoExecution() { Context().forbid_execution.pop_back(); }
ExpectNoRecompile::ExpectNoRecompile(std::string reason) {
  Context().forbid_recompile.push_back(std::move(reason));
}
ExpectNoRecompile::~ExpectNoRecompile() { Context().forbid_recompile.pop_back(); }

// ---- Unregistering

namespace {

/// Every node that a live tensor of these devices refers to, with its tensor.
std::vector<Tensor> LiveOn(const std::vector<DeviceEntry*>& devices) {
  std::vector<Tensor> tensors;
  for (DeviceEntry* entry : devices) {
    Device device = Device::FromId(entry->id);
    for (Tensor& tensor : LazyGraphExecutor::Get()->GetLiveTensors(&device))
      tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::string ListOf(const std::vector<Tensor>& tensors) {
  std::string text;
  for (size_t i = 0; i < tensors.size() && i < 8; ++i) text += "\n  " + tensors[i].summary();
  if (tensors.size() > 8) text += fmt::format("\n  and {} more", tensors.size() - 8);
  return text;
}

/// A host copy of a value; nothing if it cannot be had, so that its error stays its own.
std::optional<HostTensor> HostCopy(const Value& value) {
  try {
    return Executor().Read(Tensor::FromValue(value));
  } catch (const Error&) {
    return std::nullopt;
  }
}

NodePtr LeafOf(const HostTensor& host, const Node& node) {
  return MakeHostLeaf(host, node.device(), node.location());
}

/// Puts the values of tensors into host memory; their nodes become leaves of the copies. Members of
/// an alias group keep aliasing: its base is copied too.
void CopyToHost(const std::vector<Tensor>& tensors) {
  struct Copy {
    TensorImpl* impl;
    NodePtr leaf;
  };
  std::vector<Copy> copies;
  std::map<AliasGroup*, NodePtr> bases;  // looked up, never iterated
  for (const Tensor& tensor : tensors) {
    TensorImpl& impl = *tensor.impl();
    if (impl.donated) continue;
    Value value = ValueOf("unregister", tensor);
    if (auto host = HostCopy(value)) copies.push_back({&impl, LeafOf(*host, *value.node)});
    if (!impl.SharesMemory() || bases.contains(impl.view->group.get())) continue;
    Value base = BaseValue(impl.view->group);
    auto host = HostCopy(base);
    bases[impl.view->group.get()] = host ? LeafOf(*host, *base.node) : NodePtr();
  }
  for (Copy& copy : copies) {
    ViewState* view = copy.impl->view.get();
    if (view && view->group) {
      std::lock_guard lock(view->group->mutex);
      if (NodePtr& leaf = bases[view->group.get()]) {
        ForgetWrites(*view->group);
        view->group->base = {std::move(leaf), 0};
        view->group->generation.fetch_add(1);
      }
      view->generation = view->group->generation.load();
    }
    ForgetWrites(*copy.impl);
    SetNode(*copy.impl, {std::move(copy.leaf), 0});
  }
}

}  // namespace

void RetireDevices(const std::vector<DeviceEntry*>& devices, const std::string& name, bool force) {
  for (DeviceEntry* entry : devices) Executor().Drain(*entry);
  std::vector<Tensor> live = LiveOn(devices);
  if (!live.empty() && !force) {
    Throw(ErrorCode::kValue,
          "backend '{}' cannot be unregistered: {} live tensor(s) are on its devices; drop them, "
          "or unregister with "
          "force to copy them to the host:{}",
          name, live.size(), ListOf(live));
  }
  CopyToHost(live);
  WaitForSavedSteps();  // they have computations of the backend
  for (DeviceEntry* entry : devices) {
    Executor().Drain(*entry);
    Executor().cache.EraseDevice(entry);
    std::lock_guard lock(Executor().graph_mutex);
    entry->scalars.clear();
  }
}

}  // namespace hammock
