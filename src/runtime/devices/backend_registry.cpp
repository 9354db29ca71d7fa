#include "runtime/devices/backend_registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "backends/table.h"
#include "base/load_libraries.h"
#include "base/nearest.h"
#include "base/never_destroyed.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "distributed/group.h"
#include "hammock/config.h"
#include "hammock/metrics.h"
#include "runtime/devices/backend_calls.h"

namespace hammock {

constinit config::Option<std::string> config::kDevice({
    .name = "device",
    .default_value = "",
    .doc = "Device of new tensors, such as `cpu` or `cuda:1`; empty: the best one that exists.",
    .upstream = "torch_lazy_ts_cuda, LTC_TS_CUDA",
});

namespace {

constexpr size_t kMaxDevices = 1024;

struct Backend {
  std::string name;
  lazy::BackendImplInterface* impl;
  int report;  // metrics provider
};

struct Registry {
  std::mutex mutex;
  std::vector<Backend> backends;
  std::array<std::atomic<DeviceEntry*>, kMaxDevices> devices{};
  std::atomic<size_t> device_count{0};
  std::atomic<uint16_t> default_device{kNoDevice};  // set by API
  std::once_flag in_tree, late;
  std::atomic<bool> complete{false};  // in-tree backends and listed libraries are there
};
Registry& registry() {
  static auto& instance = NeverDestroyed<Registry>();
  return instance;
}

std::string LowerCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The entry of a device that was there before (same backend object), or null. With the mutex held.
DeviceEntry* FormerEntry(const lazy::BackendImplInterface* impl,
                         const lazy::BackendDevice& device) {
  Registry& r = registry();
  for (size_t i = 0; i < r.device_count.load(); ++i) {
    DeviceEntry* entry = r.devices[i].load();
    if (entry->backend == impl && entry->device == device) return entry;
  }
  return nullptr;
}

/// All of them or, with an exception, none. With the mutex held.
void AddDevices(const Backend& backend, const std::vector<lazy::BackendDevice>& devices) {
  Registry& r = registry();
  const size_t first = r.device_count.load();
  std::vector<std::unique_ptr<DeviceEntry>> made;
  std::vector<DeviceEntry*> former;
  for (const lazy::BackendDevice& device : devices) {
    if (DeviceEntry* entry = FormerEntry(backend.impl, device)) {
      former.push_back(entry);
      continue;
    }
    HAMMOCK_CHECK(first + made.size() < kMaxDevices, "more than {} devices", kMaxDevices);
    made.push_back(std::make_unique<DeviceEntry>(static_cast<DeviceId>(first + made.size()),
                                                 backend.name, backend.impl, device));
  }
  for (DeviceEntry* entry : former) entry->active = true;
  for (size_t i = 0; i < made.size(); ++i) r.devices[first + i] = made[i].release();
  r.device_count = first + made.size();
}

/// A backend's part of the metrics report: its text, its numbers, the memory of its devices.
std::string ReportOf(const lazy::BackendImplInterface& backend) {
  std::string text = backend.CreateMetricReport();
  if (!text.empty() && text.back() != '\n') text += '\n';
  for (const auto& [name, value] : backend.GetMetrics()) {
    bool shown = text.find(name) != std::string::npos;
    if (!shown) text += fmt::format("{}: {}\n", name, value);
  }
  auto bytes = [](int64_t count) {
    return metrics::Repr(metrics::Kind::kBytes, static_cast<double>(count));
  };
  for (const lazy::BackendDevice& device : backend.GetBackendDevices()) {
    lazy::MemoryInfo memory = backend.GetMemoryInfo(device);
    text += fmt::format("Memory of {}: {} in use ({} derived), {} peak, {} reserved, limit {}\n",
                        device.toString(), bytes(memory.in_use), bytes(memory.derived),
                        bytes(memory.peak), bytes(memory.reserved),
                        memory.limit > 0 ? bytes(memory.limit) : "none");
  }
  return text;
}

/// With the mutex held.
void RefuseDuplicate(const std::string& name) {
  for (const Backend& other : registry().backends) {
    if (other.name != name) continue;
    Throw(
        ErrorCode::kDuplicateRegistration,
        "a backend named '{}' is already registered; unregister it first or give this one another "
        "device type name",
        name);
  }
}

/// A method of a backend that has no device yet.
template <class Fn>
auto AskNew(const std::string& name, const char* method, Fn&& ask) {
  try {
    return ask();
  } catch (...) {
    RaiseFromBackend(name.empty() ? "a new backend" : name, method, ErrorCode::kDevice);
  }
}

/// The name of its devices; ValueError for a name that could not be told from an ordinal.
std::string NameOf(const lazy::BackendImplInterface& impl) {
  auto type = AskNew("", "GetDefaultDeviceType", [&] { return impl.GetDefaultDeviceType(); });
  if (!type) Throw(ErrorCode::kValue, "RegisterBackend: GetDefaultDeviceType returned null");
  std::string name =
      LowerCase(AskNew("", "BackendDeviceType::toString", [&] { return type->toString(); }));
  auto allowed = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  };
  if (!name.empty() && std::all_of(name.begin(), name.end(), allowed)) return name;
  Throw(ErrorCode::kValue,
        "RegisterBackend: '{}' is no name of a device type: it needs letters, digits, '_', '-' or "
        "'.', and no other character",
        name);
}

void Add(lazy::BackendImplInterface* impl, int abi_version) {
  if (abi_version != lazy::kBackendAbiVersion) {
    Throw<NotSupported>(
        ErrorCode::kAbiMismatch,
        "the backend was built against version {} of the lazy backend headers, this library has "
        "version {}; rebuild it",
        abi_version, lazy::kBackendAbiVersion);
  }
  if (!impl) Throw(ErrorCode::kValue, "RegisterBackend: the backend is null");
  std::string name = NameOf(*impl);
  {
    std::lock_guard lock(registry().mutex);
    RefuseDuplicate(name);
  }
  // No lock is held while the backend is asked, since it may use others.
  AskNew(name, "InitializeBindings", [&] { impl->InitializeBindings(); });
  std::vector<lazy::BackendDevice> devices =
      AskNew(name, "GetBackendDevices", [&] { return impl->GetBackendDevices(); });
  int report = metrics::AddReportProvider(name, [impl, name] {
    return AskNew(name, "CreateMetricReport", [&] { return ReportOf(*impl); });
  });
  try {
    std::lock_guard lock(registry().mutex);
    RefuseDuplicate(name);
    registry().backends.reserve(registry().backends.size() + 1);
    Backend backend{name, impl, report};
    AddDevices(backend, devices);
    registry().backends.push_back(std::move(backend));
  } catch (...) {
    metrics::RemoveReportProvider(report);
    throw;
  }
}

/// The backends of this library and of those that are to be opened with it.
void EnsureInTree() {
  if (registry().complete.load(std::memory_order_acquire)) return;
  std::call_once(registry().in_tree, [] {
    for (lazy::BackendImplInterface* backend : InTreeBackends())
      Add(backend, lazy::kBackendAbiVersion);
  });
  if (OpenListedLibraries()) registry().complete = true;
}

/// Backends that open libraries of a vendor are registered too: programs that name no device of
/// theirs, nor list all devices, do not pay for them.
void EnsureAll() {
  EnsureInTree();
  std::call_once(registry().late, [] {
    for (lazy::BackendImplInterface* backend : LateInTreeBackends())
      Add(backend, lazy::kBackendAbiVersion);
    process_exit::WatchThread();  // these libraries have exit handlers
  });
}

std::vector<std::string> ActiveNames() {
  std::vector<std::string> names;
  for (DeviceEntry* entry : AllDevices()) names.push_back(entry->name());
  return names;
}

DeviceId FindDevice(const std::string& text) {
  size_t colon = text.find(':');
  std::string type = LowerCase(text.substr(0, colon));
  bool known_type = false;
  int64_t ordinal = -1;
  if (colon != std::string::npos) {
    std::string digits = text.substr(colon + 1);
    if (digits.empty() || digits.size() > 9 ||
        !std::all_of(digits.begin(), digits.end(), ::isdigit)) {
      Throw(ErrorCode::kBadOrdinal,
            "device '{}': '{}' is not an ordinal; write a number such as {}:0", text, digits, type);
    }
    ordinal = std::stoll(digits);
  }
  std::vector<std::string> of_type;
  auto is_of_type = [&](const DeviceEntry* entry) { return entry->type == type; };
  if (std::ranges::none_of(AllDevices(), is_of_type)) EnsureAll();
  for (DeviceEntry* entry : AllDevices()) {
    if (!is_of_type(entry)) continue;
    if (!known_type && ordinal < 0) {
      ordinal = CallBackend(*entry, "GetDefaultDeviceOrdinal",
                            [](auto& backend) { return backend.GetDefaultDeviceOrdinal(); });
    }
    known_type = true;
    if (entry->device.ordinal() == ordinal) return entry->id;
    of_type.push_back(entry->name());
  }
  if (known_type) {
    Throw(ErrorCode::kBadOrdinal, "device '{}' does not exist; there are: {}", text,
          fmt::join(of_type, ", "));
  }
  if (ActiveNames().empty()) {
    Throw(ErrorCode::kUnknownDevice, "unknown device '{}'; no backend is registered", text);
  }
  std::string why;
  for (const lazy::AbsentBackend& absent : AbsentInTreeBackends()) {
    if (absent.name == type) why = absent.reason;
  }
  Throw(ErrorCode::kUnknownDevice, "unknown device '{}'{}; registered devices are: {}", text,
        why.empty() ? "" : " (" + why + ")", fmt::join(ActiveNames(), ", "));
}

}  // namespace

DeviceEntry::DeviceEntry(DeviceId id, std::string type, lazy::BackendImplInterface* backend,
                         lazy::BackendDevice device)
    : id(id), type(std::move(type)), backend(backend), device(std::move(device)), lane(name()) {}

DeviceEntry& EntryOf(DeviceId id) {
  EnsureInTree();
  HAMMOCK_CHECK(id < registry().device_count.load(), "device id {}", id);
  return *registry().devices[id].load();
}

// Of the backends that are registered by now: there are none of others yet.
std::vector<DeviceEntry*> AllDevices() {
  EnsureInTree();
  std::vector<DeviceEntry*> all;
  size_t count = registry().device_count.load();
  for (size_t i = 0; i < count; ++i) {
    DeviceEntry* entry = registry().devices[i].load();
    if (entry->active) all.push_back(entry);
  }
  return all;
}

Device::Device(Location at) {
  EnsureInTree();
  id_ = registry().default_device.load();
  if (id_ != kNoDevice && EntryOf(id_).active) return;
  const std::string& configured = config::Get<config::kDevice>();
  if (!configured.empty()) {
    LocationScope scope(at);
    id_ = FindDevice(configured);
    return;
  }
  id_ = kNoDevice;
  for (DeviceEntry* entry : AllDevices()) {
    // In-tree backends are registered in order of preference, the null backend last.
    if (entry->type == "null") continue;
    id_ = entry->id;
    return;
  }
  Throw<NotSupported>(ErrorCode::kNotRegistered, "Lazy tensor backend not registered.");
}

Device::Device(const std::string& name, Location at) {
  LocationScope scope(at);
  id_ = FindDevice(name);
}
std::string Device::type() const { return id_ == kNoDevice ? "symbolic" : EntryOf(id_).type; }
int64_t Device::ordinal() const { return id_ == kNoDevice ? 0 : EntryOf(id_).device.ordinal(); }
std::string Device::to_string() const {
  return id_ == kNoDevice ? "symbolic" : EntryOf(id_).name();
}
lazy::BackendImplInterface& Device::backend() const { return *EntryOf(id_).backend; }
const lazy::BackendDevice& Device::backend_device() const { return EntryOf(id_).device; }

std::ostream& operator<<(std::ostream& os, const Device& device) {
  return os << device.to_string();
}

void SetDefaultDevice(const Device& device) { registry().default_device = device.id(); }

void distributed::ChooseDevice(int local_rank) {
  const bool has_ordinal = config::Get<config::kDevice>().find(':') != std::string::npos;
  if (local_rank == 0 || has_ordinal || registry().default_device.load() != kNoDevice) return;
  const std::string type = Device().type();
  std::vector<std::string> names;
  for (const DeviceEntry* entry : AllDevices()) {
    if (entry->type == type) names.push_back(entry->name());
  }
  if (names.size() > 1) {
    config::Set<config::kDevice>(names[static_cast<size_t>(local_rank) % names.size()]);
  }
}

std::vector<Device> Devices() {
  EnsureAll();
  std::vector<Device> all;
  for (DeviceEntry* entry : AllDevices()) all.push_back(Device::FromId(entry->id));
  return all;
}

namespace lazy {

BackendDevice::BackendDevice() : BackendDevice(Device().backend_device()) {}

BackendRegistrar::BackendRegistrar(BackendImplInterface* backend, int abi_version) {
  RegisterBackend(backend, abi_version);
}

void RegisterBackend(BackendImplInterface* backend, int abi_version) {
  EnsureAll();
  Add(backend, abi_version);
}

void UnregisterBackend(const std::string& name, bool force) {
  BackendImplInterface* impl = getBackend(name);
  std::vector<DeviceEntry*> devices;
  for (DeviceEntry* entry : AllDevices()) {
    if (entry->backend == impl) devices.push_back(entry);
  }
  RetireDevices(devices, name, force);
  AskNew(name, "PrepareToExit", [&] { impl->PrepareToExit(); });
  std::lock_guard lock(registry().mutex);
  for (DeviceEntry* entry : devices) {
    entry->active = false;
    DeviceId id = entry->id;
    registry().default_device.compare_exchange_strong(id, kNoDevice);
  }
  std::erase_if(registry().backends, [&](const Backend& backend) {
    if (backend.impl != impl) return false;
    metrics::RemoveReportProvider(backend.report);
    return true;
  });
}

bool hasBackend() {
  EnsureInTree();
  std::lock_guard lock(registry().mutex);
  return !registry().backends.empty();
}

BackendImplInterface* getBackend() { return &Device().backend(); }

BackendImplInterface* getBackend(const std::string& name) {
  EnsureAll();
  std::lock_guard lock(registry().mutex);
  std::vector<std::string> names;
  for (const Backend& backend : registry().backends) {
    if (backend.name == name) return backend.impl;
    names.push_back(backend.name);
  }
  Throw(ErrorCode::kNotRegistered, "no backend named '{}' is registered; there are: {}", name,
        fmt::join(names, ", "));
}

const IrBuilder* getIrBuilder() { return getBackend()->GetIrBuilder(); }

std::vector<std::string> BackendNames() {
  EnsureAll();
  std::lock_guard lock(registry().mutex);
  std::vector<std::string> names;
  for (const Backend& backend : registry().backends) names.push_back(backend.name);
  return names;
}

std::vector<AbsentBackend> AbsentBackends() {
  std::vector<AbsentBackend> absent = AbsentInTreeBackends();
  std::vector<std::string> present = BackendNames();
  std::erase_if(absent, [&](const AbsentBackend& backend) {
    return std::find(present.begin(), present.end(), backend.name) != present.end();
  });
  return absent;
}

}  // namespace lazy
}  // namespace hammock
