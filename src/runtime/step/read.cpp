/// Reading values, and waiting for devices.

#include <map>

#include "base/throw.h"
#include "hammock/lazy/device_exchange.h"
#include "hammock/lazy/host_sharing.h"
#include "hammock/metric.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/diagnose/profile_points.h"
#include "runtime/step/budget.h"
#include "runtime/step/executor.h"
#include "runtime/step/wait.h"
#include "trace/record.h"

namespace hammock {

BackendDataPtr StepExecutor::Materialize(const Value& value, const char* trigger) {
  auto data_of = [&] {
    std::lock_guard lock(graph_mutex);
    return value.node->slots()[value.index].data;
  };
  DeviceEntry& device = EntryOf(value.node->device());
  if (BackendDataPtr data = data_of()) {
    RefuseToWait(device, data);
    WaitForResult(*data);
    if (!data->error()) return data;
  }
  SyncDevice(device, std::span(&value, 1), {.trigger = trigger, .wait = true});
  return data_of();
}

namespace {

constinit const metrics::DeclaredMetric kTransferFromDeviceTime({
    .name = "TransferFromDeviceTime",
    .kind = metrics::Kind::kTime,
    .doc = "Downloads, waiting included.",
});

constinit const metrics::DeclaredMetric kTransferFromDeviceBytes({
    .name = "TransferFromDeviceBytes",
    .kind = metrics::Kind::kBytes,
    .doc = "Downloads.",
});

constinit const metrics::DeclaredCounter kDirectDeviceCopies({
    .name = "DirectDeviceCopies",
    .doc = "Values copied from one device to another without the host.",
});

std::vector<HostTensor> DownloadMeasured(DeviceEntry& device,
                                         std::span<const BackendDataPtr> data) {
  metrics::ScopedTimer timer(metrics::Get<kTransferFromDeviceTime>());
  profile::Span span("download", "transfer");
  std::vector<HostTensor> tensors = Download(device, data);
  int64_t total = 0;
  for (const HostTensor& tensor : tensors) total += tensor.bytes();
  metrics::Get<kTransferFromDeviceBytes>().AddSample(static_cast<double>(total));
  span.Set("bytes", total);
  return tensors;
}

}  // namespace

HostTensor StepExecutor::HostLeafOf(const Value& value) {
  if (!value.node->IsLeaf()) return {};
  std::lock_guard lock(graph_mutex);
  CheckBorrowed(*value.node);
  LeafPayload* payload = NodeAccess::payload(value.node.get());
  return payload && !value.node->slots()[0].data ? payload->host : HostTensor();
}

namespace {

void BeginRead() {
  CheckNotForked();
  AtNaturalEnd(NaturalEnd::kRead);
  // Values that were read stand: outside of steps a later failure does not undo them.
  if (Context().step_depth == 0) SealUnit(Context());
}

}  // namespace

std::vector<HostTensor> StepExecutor::Read(std::span<const Tensor> tensors, const char* trigger) {
  BeginRead();
  std::vector<Value> values;
  for (const Tensor& tensor : tensors) {
    Value value = ValueOf("read", tensor);
    if (!value) ThrowUndefined("read");
    values.push_back(std::move(value));
  }
  if (values.size() > 1) Sync(values, {.trigger = trigger, .wait = false});
  std::vector<HostTensor> results(values.size());
  std::map<DeviceId, std::vector<size_t>> on_device;
  std::vector<BackendDataPtr> data(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Node* node = values[i].node.get();
    if (node->device() == kNoDevice) {
      if (&node->op() != &ops::kScalarLeaf && &node->op() != &ops::kConstant) {
        Throw(ErrorCode::kValue, "read: the tensor is symbolic and has no value");
      }
      results[i] = HostTensor::From(node->attrs()[0].scalar());
      continue;
    }
    if (HostTensor leaf = HostLeafOf(values[i]); leaf.defined()) {
      // The reader may write what it gets.
      results[i] = HostTensor::Copy(leaf.shape(), leaf.data());
      continue;
    }
    data[i] = Materialize(values[i], trigger);
    on_device[node->device()].push_back(i);
  }
  for (const auto& [device, indices] : on_device) {
    std::vector<BackendDataPtr> batch;
    for (size_t i : indices) batch.push_back(data[i]);
    std::vector<HostTensor> read = DownloadMeasured(EntryOf(device), batch);
    for (size_t k = 0; k < indices.size(); ++k) results[indices[k]] = std::move(read[k]);
  }
  return results;
}

HostTensor StepExecutor::Read(const Tensor& tensor, const char* trigger) {
  return Read(std::span(&tensor, 1), trigger).at(0);
}

HostTensor SharedElements(const Tensor& tensor, Location at) {
  LocationScope scope(at);
  Value value = ValueOf("read", tensor);
  if (value && !value.node->IsLeaf() && value.node->device() != kNoDevice) {
    DeviceEntry& device = EntryOf(value.node->device());
    if (auto* memory = dynamic_cast<const lazy::HostSharing*>(device.backend)) {
      BeginRead();
      BackendDataPtr data = Executor().Materialize(value, "read");
      HostTensor shared = CallBackend(device, "Share", [&](auto&) { return memory->Share(data); });
      if (shared.defined()) return shared;
    }
  }
  return Executor().Read(tensor);
}

namespace {

/// Data of the device with the value of a tensor, computed or uploaded.
BackendDataPtr DataOn(DeviceEntry& device, const Tensor& tensor) {
  Value value = ValueOf("read", tensor);
  const bool uploaded = [&] {
    std::lock_guard lock(Executor().graph_mutex);
    return !value.node->IsLeaf() || value.node->slots()[0].data;
  }();
  if (value.node->device() != kNoDevice && uploaded) {
    BeginRead();
    return Executor().Materialize(value, "read");
  }
  HostTensor host = Executor().Read(tensor);
  return Upload(device, std::span(&host, 1))[0];
}

/// Memory that another library has, until it lets go of it.
struct Shared {
  Shared(const lazy::DeviceExchange& exchange, lazy::BackendDevice device,
         lazy::DeviceExchange::Stream stream)
      : exchange(exchange), device(device), stream(stream) {}
  ~Shared() {
    try {
      if (lent.holder) exchange.TakeBack(std::move(lent), device, stream);
    } catch (const std::exception&) {
      // The device is lost, or the process ends: nobody uses the memory again.
    }
  }

  const lazy::DeviceExchange& exchange;
  const lazy::BackendDevice device;
  const lazy::DeviceExchange::Stream stream;
  lazy::DeviceExchange::Lent lent;
};

using MemoryOf = lazy::DeviceExchange::Lent(const lazy::DeviceExchange& exchange,
                                            BackendDataPtr data);

SharedDeviceMemory MemoryFor(std::optional<lazy::DeviceExchange::Stream> stream,
                             const Tensor& tensor, const char* method, MemoryOf* memory_of) {
  const Device place = tensor.device().id() == kNoDevice ? Device() : tensor.device();
  const lazy::DeviceExchange& exchange = NeededExchange(place);
  DeviceEntry& device = EntryOf(place.id());
  BackendDataPtr data = DataOn(device, tensor);
  auto shared = std::make_shared<Shared>(exchange, device.device,
                                         stream.value_or(lazy::DeviceExchange::kDefaultStream));
  CallBackend(device, method, [&](auto&) { shared->lent = memory_of(exchange, std::move(data)); });
  if (stream) {
    CallBackend(device, "LetComeAfter",
                [&](auto&) { exchange.LetComeAfter(device.device, *stream); });
  }
  const uint64_t address = shared->lent.memory;
  return {address, std::move(shared)};
}

}  // namespace

SharedDeviceMemory SharedMemory(const Tensor& tensor,
                                std::optional<lazy::DeviceExchange::Stream> stream, Location at) {
  LocationScope scope(at);
  return MemoryFor(stream, tensor, "Share",
                   [](const auto& exchange, auto data) { return exchange.ShareMemory(data); });
}

SharedDeviceMemory LentMemory(const Tensor& tensor,
                              std::optional<lazy::DeviceExchange::Stream> stream, Location at) {
  LocationScope scope(at);
  return MemoryFor(stream, tensor, "Lend",
                   [](const auto& exchange, auto data) { return exchange.Lend(std::move(data)); });
}

NodePtr StepExecutor::CopyToDevice(const Tensor& tensor, DeviceId to, LocationId location) {
  CheckNotForked();
  Value value = ValueOf("to", tensor);
  const DeviceId from = value.node->device();
  DeviceEntry* target = to == kNoDevice ? nullptr : &EntryOf(to);
  bool one_backend = target && from != kNoDevice && EntryOf(from).backend == target->backend;
  if (one_backend && !HostLeafOf(value).defined()) {
    BackendDataPtr data = Materialize(value, "copy to device");
    profile::Span span("copy between devices", "transfer");
    if (BackendDataPtr copy = CopyDirectly(*target, data)) {
      metrics::Get<kDirectDeviceCopies>().Add();
      return MakeDataLeaf(copy, to, location);
    }
  }
  return MakeHostLeaf(Read(tensor), to, location);
}

void StepExecutor::Drain(DeviceEntry& device) {
  if (RunsHere(device)) {
    Throw(ErrorCode::kExecutionForbidden,
          "a computation that runs on {} cannot wait until the device is idle", device.name());
  }
  const WithoutHostLock no_lock;
  profile::Span span("wait for device", "wait");
  for (Lane* lane : LanesOf(device)) lane->Drain();
  if (device.in_flight.load(std::memory_order_acquire) != 0) {
    CallBackend(device, "Hurry", [&](auto& backend) { backend.Hurry(device.device); });
  }
  for (int left; (left = device.in_flight.load(std::memory_order_acquire)) != 0;) {
    device.in_flight.wait(left, std::memory_order_acquire);
  }
}

}  // namespace hammock
