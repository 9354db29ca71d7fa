#include "runtime/devices/memory_pressure.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <string>

#include "base/throw.h"
#include "hammock/metric.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/step/executor.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

constinit const metrics::DeclaredCounter kMemoryPressure({
    .name = "MemoryPressure",
    .doc = "Times that memory was freed because an allocation failed.",
});

constinit const metrics::DeclaredMetric kDerivedBytesDropped({
    .name = "DerivedBytesDropped",
    .kind = metrics::Kind::kBytes,
    .doc = "Packed weights and other derived data, dropped under memory pressure.",
});

constexpr int64_t kNotSet = -1;
std::atomic<int64_t> host_memory_for_testing{kNotSet};

int64_t AvailableOnHost() {
  if (int64_t set = host_memory_for_testing; set != kNotSet) return set;
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (int64_t amount; file >> name >> amount; std::getline(file, unit)) {
    if (name == "MemAvailable:") return amount * 1024;
  }
  return kUnknownBytes;
}

struct LiveValue {
  int64_t bytes = 0;
  Shape type;
  LocationId location = 0;
};

/// The values that tensors of all threads keep on the device: of those that share memory, the base
/// of their group.
std::vector<Value> HeldOn(DeviceId device) {
  std::vector<Value> held;
  std::vector<std::shared_ptr<AliasGroup>> groups;
  for (ThreadContext* context : AllContexts()) {
    std::lock_guard lock(context->lock);
    for (Link* list : {&context->pending, &context->settled}) {
      for (Link* link = list->next; link != list; link = link->next) {
        auto* impl = static_cast<TensorImpl*>(link);
        if (impl->node->device() != device) continue;
        if (impl->SharesMemory()) {
          groups.push_back(impl->view->group);
        } else {
          held.push_back({NodePtr(impl->node), impl->index});
        }
      }
    }
  }
  for (const std::shared_ptr<AliasGroup>& group : groups) held.push_back(BaseValue(group));
  return held;
}

std::vector<LiveValue> LargestLive(DeviceEntry& device, size_t most) {
  const std::vector<Value> held = HeldOn(device.id);
  std::vector<LiveValue> live;
  std::map<const lazy::BackendData*, bool> seen;  // looked up, never iterated
  {
    std::lock_guard lock(Executor().graph_mutex);
    for (const Value& value : held) {
      if (!value) continue;
      const BackendDataPtr& data = value.node->slots()[value.index].data;
      if (!data || !data->IsReady() || data->error() || seen[data.get()]) continue;
      seen[data.get()] = true;
      live.push_back({data->bytes(), data->shape(), value.node->location()});
    }
  }
  std::ranges::stable_sort(live, std::ranges::greater(), &LiveValue::bytes);
  if (live.size() > most) live.resize(most);
  return live;
}

DeviceEntry& RealDevice(const char* what, const Device& device) {
  if (device.id() == kNoDevice) {
    Throw(ErrorCode::kValue, "{}: symbolic tensors have no memory", what);
  }
  return EntryOf(device.id());
}

}  // namespace

int64_t FreeBytes(const lazy::MemoryInfo& info) {
  const int64_t most = info.limit > 0 ? info.limit : info.total;
  if (most > 0) return std::max<int64_t>(most - info.in_use, 0);
  const int64_t available = AvailableOnHost();
  if (available == kUnknownBytes) return kUnknownBytes;
  return available + std::max<int64_t>(info.reserved - info.in_use, 0);  // the device's cache
}

void SetHostMemoryForTesting(std::optional<int64_t> bytes) {
  host_memory_for_testing = bytes.value_or(kNotSet);
}

bool FreeMemoryOf(DeviceEntry& device) {
  metrics::Get<kMemoryPressure>().Add();
  auto held = [&] {
    lazy::MemoryInfo info = MemoryOf(device);
    return std::max(info.in_use, info.reserved);
  };
  int64_t before = held();
  // Steps keep memory until it is known whether they have failed.
  CallBackend(device, "Hurry", [&](auto& backend) { backend.Hurry(device.device); });
  int64_t derived = lazy::DropDerivedData(device.device);
  if (derived > 0) metrics::Get<kDerivedBytesDropped>().AddSample(static_cast<double>(derived));
  std::vector<DeviceEntry::CachedScalar> scalars;
  {
    std::lock_guard lock(Executor().graph_mutex);
    scalars.swap(device.scalars);
  }
  scalars.clear();
  CallBackend(device, "FreeCachedMemory",
              [&](auto& backend) { backend.FreeCachedMemory(device.device); });
  return derived > 0 || held() < before;
}

void RaiseOutOfMemory(DeviceEntry& device, const OutOfMemory& error) {
  constexpr size_t kMost = 5;
  std::string message = error.message();
  if (message.find("largest live") == std::string::npos) {
    std::string list;
    for (const LiveValue& value : LargestLive(device, kMost)) {
      std::string where = LocationText(value.location);
      list += fmt::format("\n  {} {}{}",
                          metrics::Repr(metrics::Kind::kBytes, static_cast<double>(value.bytes)),
                          value.type.to_string(), where.empty() ? "" : " made at " + where);
    }
    if (!list.empty()) {
      message += fmt::format("; the largest live values on {} are:{}", device.name(), list);
    }
  }
  OutOfMemory full(error.code(), std::move(message));
  full.SetWhere(error.where());
  throw full;
}

lazy::MemoryInfo GetMemoryInfo(const Device& device, Location at) {
  LocationScope scope(at);
  DeviceEntry& entry = RealDevice("GetMemoryInfo", device);
  return MemoryOf(entry);
}

void SetMemoryLimit(const Device& device, int64_t bytes, Location at) {
  LocationScope scope(at);
  DeviceEntry& entry = RealDevice("SetMemoryLimit", device);
  if (bytes < 0) {
    Throw(ErrorCode::kValue, "SetMemoryLimit: {} bytes, needs at least 0 (0 lifts the limit)",
          bytes);
  }
  CallBackend(entry, "SetMemoryLimit",
              [&](auto& backend) { backend.SetMemoryLimit(entry.device, bytes); });
}

int64_t FreeMemory(const Device& device, Location at) {
  LocationScope scope(at);
  DeviceEntry& entry = RealDevice("FreeMemory", device);
  int64_t derived = lazy::DerivedBytes(entry.device);
  FreeMemoryOf(entry);
  return derived;
}

}  // namespace hammock
