/// Parameters of a step: the host values of leaves, and the data that a device has of them.

#include <map>

#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metric.h"
#include "ir/borrowed.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/diagnose/profile_points.h"
#include "runtime/step/executor.h"

namespace hammock {

constinit config::Option<int64_t> config::kDeviceDataCacheSize({
    .name = "device_data_cache_size",
    .default_value = 128,
    .doc = "Number of scalars kept on a device for reuse; 0 keeps none.",
    .upstream = "torch_lazy_device_data_cache_size, torch_lazy_enable_device_data_cache",
});

HostTensor HostValue(const Node* node) {
  if (&node->op() == &ops::kScalarLeaf) return HostTensor::From(node->attrs()[0].scalar());
  if (&node->op() == &ops::kRngState) {
    HostTensor state(node->shape());
    auto words = state.mutable_values<uint64_t>();
    words[0] = static_cast<uint64_t>(node->attrs()[0].integer());
    words[1] = static_cast<uint64_t>(node->attrs()[1].integer());
    return state;
  }
  LeafPayload* payload = NodeAccess::payload(node);
  if (!payload || !payload->host.defined()) {
    Throw(ErrorCode::kValue, "a symbolic tensor ({}) has no value to compute with",
          node->shape().to_string());
  }
  return payload->host;
}

void CheckBorrowed(const Node& node) {
  if (!config::Get<config::kCheckBorrowed>()) return;
  if (LeafPayload* payload = NodeAccess::payload(&node)) {
    CheckUnchanged(payload->host, node.location());
  }
}

namespace {

constinit const metrics::DeclaredCounter kDeviceDataCacheMiss({
    .name = "DeviceDataCacheMiss",
    .doc = "Scalars that had to be uploaded.",
});

constinit const metrics::DeclaredMetric kTransferToDeviceTime({
    .name = "TransferToDeviceTime",
    .kind = metrics::Kind::kTime,
    .doc = "Uploads.",
});

constinit const metrics::DeclaredMetric kTransferToDeviceBytes({
    .name = "TransferToDeviceBytes",
    .kind = metrics::Kind::kBytes,
    .doc = "Uploads.",
});

/// Where the data of a scalar is kept; null: nowhere. With the graph mutex held.
DeviceEntry::CachedScalar* CachedScalarOf(DeviceEntry& device, const Scalar& value) {
  auto size = static_cast<size_t>(config::Get<config::kDeviceDataCacheSize>());
  if (device.scalars.size() != size) device.scalars.assign(size, {});
  if (size == 0) return nullptr;
  Hash128 hash = Combine(Combine(HashOf(value.bits()), value.imag_bits()),
                         static_cast<uint64_t>(value.dtype()));
  return &device.scalars[hash.lo % size];
}

BackendDataPtr NewScalarData(DeviceEntry& device, const Scalar& value) {
  metrics::Get<kDeviceDataCacheMiss>().Add();
  BackendDataPtr data = UploadScalar(device, value);
  data->SetInfo(std::make_shared<lazy::BackendData::DeviceDataInfo>(-1, /*read_only=*/true));
  return data;
}

}  // namespace

std::vector<BackendDataPtr> UploadLeaves(DeviceEntry& device,
                                         const std::vector<HostTensor>& values) {
  int64_t total = 0;
  for (const HostTensor& value : values) total += value.bytes();
  std::vector<BackendDataPtr> data;
  {
    metrics::ScopedTimer timer(metrics::Get<kTransferToDeviceTime>());
    profile::Span span("upload", "transfer");
    span.Set("bytes", total);
    data = Upload(device, values);
  }
  if (profile::IsOn()) [[unlikely]]
    WriteMemory(device);
  metrics::Get<kTransferToDeviceBytes>().AddSample(static_cast<double>(total));
  return data;
}

void FillLeaves(std::span<const NodePtr> leaves, std::span<const BackendDataPtr> data) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    Node::Slot& slot = leaves[i]->slots()[0];
    if (slot.data) continue;
    slot.data = data[i];
    LeafPayload* payload = NodeAccess::payload(leaves[i].get());
    if (payload && !IsWatched(payload->host)) payload->host = HostTensor();
  }
}

bool StepExecutor::BindParameters(DeviceEntry& device, Walk& walk, GraphLock& lock) {
  std::vector<NodePtr> missing, scalars;
  std::vector<HostTensor> tensors;
  for (Node* node : walk.parameters) {
    CheckBorrowed(*node);
    Node::Slot& slot = node->slots()[0];
    if (&node->op() == &ops::kScalarLeaf) {
      // It goes with any device, so what it has may be another device's.
      if (slot.data && slot.data->device() == device.device) continue;
      const Scalar& value = node->attrs()[0].scalar();
      DeviceEntry::CachedScalar* cached = CachedScalarOf(device, value);
      if (cached && cached->data && cached->value == value) {
        slot.data = cached->data;
      } else {
        scalars.emplace_back(node);
      }
    } else if (!slot.data) {
      missing.emplace_back(node);
      tensors.push_back(HostValue(node));
    }
  }
  if (missing.empty() && scalars.empty()) return true;
  WithoutGraphLock unlocked(lock);
  std::vector<BackendDataPtr> data;
  if (!missing.empty()) data = UploadLeaves(device, tensors);
  // Equal scalars share data.
  std::map<std::tuple<uint64_t, uint64_t, DType>, BackendDataPtr> made;
  auto key_of = [](const Scalar& value) {
    return std::tuple(value.bits(), value.imag_bits(), value.dtype());
  };
  for (const NodePtr& node : scalars) {
    const Scalar& value = node->attrs()[0].scalar();
    BackendDataPtr& one = made[key_of(value)];
    if (!one) one = NewScalarData(device, value);
  }
  bool alone = unlocked.Lock();
  for (const NodePtr& node : scalars) {
    const Scalar& value = node->attrs()[0].scalar();
    node->slots()[0].data = made[key_of(value)];
    if (auto* cached = CachedScalarOf(device, value)) *cached = {value, node->slots()[0].data};
  }
  FillLeaves(missing, data);
  if (!alone) lock.unlock();
  return alone;
}

}  // namespace hammock
