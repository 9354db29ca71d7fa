#include "plugins/plugin_backend.h"

#include <algorithm>

#include "hammock/config.h"
#include "hammock/ir/storage_types.h"
#include "plugins/plugin_calls.h"

namespace hammock::plugins {

constinit config::Option<int64_t> kTimeout({
    .name = "plugin_timeout",
    .default_value = 600000,
    .doc = "Milliseconds after which a call of a plug-in, or a result that it owes, counts as "
           "hanging: its device is lost, and whoever waits for it gets an error. Steps that take "
           "longer need more. While the process ends it is 3.5 s at most. 0: never.",
});

std::chrono::milliseconds CallTimeout() {
  using std::chrono::milliseconds;
  const milliseconds timeout = Timeout();
  if (!process_exit::Begun() || timeout.count() == 0) return timeout;
  const auto left = process_exit::Limit() - std::chrono::steady_clock::now();
  const auto most = std::max(std::chrono::duration_cast<milliseconds>(left), milliseconds(0));
  return std::min(timeout, most + process_exit::kGrace);
}

namespace {

constexpr int8_t kType = 100;

}  // namespace

// ---- Calls

PluginBackend::PluginBackend(const HammockPlugin& table, std::unique_ptr<PluginHost> host,
                             std::string path)
    : table_(table),
      host_(std::move(host)),
      path_(std::move(path)),
      type_(std::make_shared<NamedDeviceType>(table.name, kType)) {
  monitor::Watch(*this);
}

void PluginBackend::ThrowLost() const {
  std::lock_guard lock(lost_mutex_);
  why_lost_->Raise();
}

void PluginBackend::Raise(const char* function, HammockStatus status, const ErrorText& error,
                          const Graph* graph) const {
  const bool has_node = graph && error.node() >= 0 && error.node() < graph->size();
  // A lack of memory keeps its class, by which memory is freed and the call made again.
  const bool names_node = has_node && status != HAMMOCK_OUT_OF_MEMORY;
  std::shared_ptr<Error> thrown =
      ErrorOf(status, error.text(), error.op(), names_node ? error.node() : -1);
  if (has_node && !names_node) {
    thrown->SetWhere(WhereText((*graph)[NodeId(error.node())].location));
  }
  if (error.text().empty()) thrown->AddNote(fmt::format("in `{}` of {}", function, table_.name));
  thrown->Raise();
}

void PluginBackend::Lose(const char* function, int64_t milliseconds) const {
  {
    std::lock_guard lock(lost_mutex_);
    if (lost_) return;
    why_lost_ = std::make_shared<DeviceError>(
        ErrorCode::kDevice,
        fmt::format("{}: the device is lost: {} has not ended within {} ms ({})", table_.name,
                    function, milliseconds,
                    process_exit::Begun() ? "the process ends" : "option `plugin_timeout`"));
    lost_.store(true, std::memory_order_release);
  }
  Log(LogLevel::kError, "{}", why_lost_->message());
  host_->FailEvents(why_lost_);
}

void PluginBackend::LoseIfResultsAreLate(std::chrono::steady_clock::time_point now,
                                         std::chrono::milliseconds most) const {
  if (!lost_ && host_->HasLateEvent(now, most)) Lose("a result", most.count());
}

void PluginBackend::Release(HammockData data) const noexcept {
  Tell(
      "release", data,
      [](const HammockPlugin& table, HammockData& given) { table.release(table.self, 1, &given); },
      &release_pace_);
}

void PluginBackend::ReleaseExecutable(HammockExecutable executable) const noexcept {
  Tell("release_executable", executable, [](const HammockPlugin& table, HammockExecutable& given) {
    table.release_executable(table.self, given);
  });
}

// ---- Initialisation, devices

void PluginBackend::InitializeBindings() const {
  NoState none;
  if (!table_.initialize) return;
  Call("initialize", none, [](const HammockPlugin& table, NoState&, HammockError* error) {
    return table.initialize(table.self, error);
  });
}

void PluginBackend::PrepareToExit() const {
  NoState none;
  if (!table_.shutdown) return;
  Tell("shutdown", none, [](const HammockPlugin& table, NoState&) { table.shutdown(table.self); });
}

void PluginBackend::SetRngSeed(size_t seed) const {
  uint64_t given = seed;
  if (!table_.set_seed) return;
  Tell("set_seed", given,
       [](const HammockPlugin& table, uint64_t& value) { table.set_seed(table.self, value); });
}

void PluginBackend::SetDefaultDeviceOrdinal(int64_t ordinal) {
  default_ordinal_ = GetBackendDevice(ordinal).ordinal();
}

std::string PluginBackend::EagerFallbackDeviceType() const {
  return table_.fallback ? table_.fallback : BackendImplInterface::EagerFallbackDeviceType();
}

std::vector<BackendDevice> PluginBackend::GetBackendDevices() const {
  constexpr int64_t kMost = 1024;
  int64_t count = 0;
  Call("device_count", count, [](const HammockPlugin& table, int64_t& result, HammockError* error) {
    return table.device_count(table.self, &result, error);
  });
  if (count < 0 || count > kMost) {
    Throw<InternalError>(ErrorCode::kInternal, "device_count of {} gave {}", table_.name, count);
  }
  std::vector<BackendDevice> devices;
  for (int64_t i = 0; i < count; ++i) devices.emplace_back(type_, i);
  return devices;
}

lazy::MemoryInfo PluginBackend::GetMemoryInfo(const BackendDevice& device) const {
  HammockMemoryInfo info = {};
  info.struct_size = sizeof(info);
  Call(
      "memory_info", info,
      [ordinal = device.ordinal()](const HammockPlugin& table, HammockMemoryInfo& result,
                                   HammockError* error) {
        return table.memory_info(table.self, ordinal, &result, error);
      },
      &memory_pace_);
  return {info.in_use, info.derived, info.reserved, info.peak, info.limit, info.total};
}

void PluginBackend::SetMemoryLimit(const BackendDevice& device, int64_t bytes) const {
  if (!table_.set_memory_limit) return BackendImplInterface::SetMemoryLimit(device, bytes);
  Call("set_memory_limit", bytes,
       [ordinal = device.ordinal()](const HammockPlugin& table, int64_t& given,
                                    HammockError* error) {
         return table.set_memory_limit(table.self, ordinal, given, error);
       });
}

void PluginBackend::FreeCachedMemory(const BackendDevice& device) const {
  int64_t ordinal = device.ordinal();
  if (!table_.free_cached_memory) return;
  Tell("free_cached_memory", ordinal, [](const HammockPlugin& table, int64_t& given) {
    table.free_cached_memory(table.self, given);
  });
}

void PluginBackend::WaitForDevice(const BackendDevice& device) const {
  int64_t ordinal = device.ordinal();
  if (!table_.wait) return ThrowIfLost();
  Call("wait", ordinal, [](const HammockPlugin& table, int64_t& given, HammockError* error) {
    return table.wait(table.self, given, error);
  });
}

void PluginBackend::Hurry(const BackendDevice& device) const {
  int64_t ordinal = device.ordinal();
  if (!table_.hurry) return;
  Tell(
      "hurry", ordinal,
      [](const HammockPlugin& table, int64_t& given) { table.hurry(table.self, given); },
      &hurry_pace_);
}

// ---- Data

namespace {

/// The bytes of a tensor as u8; it keeps the tensor.
HostTensor BytesOf(const HostTensor& tensor) {
  return HostTensor::Borrow(Shape(DType::kU8, {tensor.bytes()}), const_cast<void*>(tensor.data()),
                            [tensor] {});
}

}  // namespace

std::vector<BackendDataPtr> PluginBackend::MakeComputationDataFromTensors(
    std::span<const HostTensor> tensors, const BackendDevice& device) const {
  struct State {
    std::vector<HostTensor> tensors;
    std::vector<HammockHostTensor> given;
    std::vector<HammockData> data;
    int64_t ordinal;
  };
  State state{{tensors.begin(), tensors.end()}, {}, {}, device.ordinal()};
  state.data.resize(tensors.size());
  for (HostTensor& tensor : state.tensors) {
    if (!Knows(tensor.dtype())) tensor = BytesOf(tensor);
    state.given.push_back({ShapeOf(tensor.shape()),
                           {tensor.data(), static_cast<uint64_t>(tensor.bytes())},
                           host_->AddBuffer(tensor)});
  }
  struct Drop {
    PluginHost& host;
    std::vector<HammockBuffer> buffers;
    ~Drop() {
      for (HammockBuffer buffer : buffers) host.DropBuffer(buffer);
    }
  } drop{*host_, {}};
  for (const HammockHostTensor& given : state.given) drop.buffers.push_back(given.buffer);
  Call(
      "upload", state,
      [](const HammockPlugin& table, State& call, HammockError* error) {
        return table.upload(table.self, call.ordinal, call.given.size(), call.given.data(),
                            call.data.data(), error);
      },
      &upload_pace_);
  std::vector<BackendDataPtr> results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (state.data[i] == 0) {
      Throw<InternalError>(ErrorCode::kInternal, "upload of {} gave no data", table_.name);
    }
    results.push_back(PluginData::Make(*this, device, tensors[i].shape(), state.data[i]));
  }
  return results;
}

BackendDataPtr PluginBackend::MakeComputationDataFromTensor(const HostTensor& tensor,
                                                            const Shape& shape,
                                                            const BackendDevice& device) const {
  HostTensor host = tensor.dtype() == shape.dtype() ? tensor : tensor.To(shape.dtype());
  return MakeComputationDataFromTensors(std::span(&host, 1), device)[0];
}

BackendDataPtr PluginBackend::MakeComputationDataFromScalar(const Scalar& scalar,
                                                            const BackendDevice& device) const {
  HostTensor host = HostTensor::From(scalar);
  return MakeComputationDataFromTensors(std::span(&host, 1), device)[0];
}

BackendDataPtr PluginBackend::CreateDataPlaceholder(const BackendDevice& device,
                                                    const Shape& shape) const {
  return PluginData::Make(*this, device, shape);
}

std::vector<HostTensor> PluginBackend::MakeTensorsFromComputationData(
    std::span<const BackendDataPtr> data) const {
  struct State {
    std::vector<HammockData> data;
    std::vector<HostTensor> tensors;
    std::vector<void*> places;
  } state;
  for (const BackendDataPtr& each : data) {
    each->WaitReady();
    state.data.push_back(HandleOf(*this, each));
    state.tensors.emplace_back(each->shape());
    state.places.push_back(state.tensors.back().mutable_data());
  }
  Call(
      "download", state,
      [](const HammockPlugin& table, State& call, HammockError* error) {
        return table.download(table.self, call.data.size(), call.data.data(), call.places.data(),
                              error);
      },
      &download_pace_);
  return std::move(state.tensors);
}

HostTensor PluginBackend::MakeTensorFromComputationData(const BackendDataPtr data,
                                                        std::optional<DType> type) const {
  HostTensor host = MakeTensorsFromComputationData(std::span(&data, 1))[0];
  return type && *type != host.dtype() ? host.To(*type) : host;
}

BackendDataPtr PluginBackend::CopyToDevice(const BackendDataPtr& data,
                                           const BackendDevice& device) const {
  if (!table_.copy) return nullptr;
  struct State {
    HammockData data;
    HammockData copy = 0;
    int64_t ordinal;
    bool supported = true;
  } state;
  state.data = HandleOf(*this, data);
  state.ordinal = device.ordinal();
  Call("copy", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    HammockStatus status = table.copy(table.self, call.data, call.ordinal, &call.copy, error);
    call.supported = status != HAMMOCK_NOT_SUPPORTED;
    return call.supported ? status : HAMMOCK_OK;
  });
  if (!state.supported) return nullptr;
  if (state.copy == 0) {
    Throw<InternalError>(ErrorCode::kInternal, "copy of {} gave no data", table_.name);
  }
  return PluginData::Make(*this, device, data->shape(), state.copy);
}

}  // namespace hammock::plugins
