#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>

#include "base/load_libraries.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "hammock/plugins.h"
#include "jit/device_delegate.h"
#include "plugins/plugin_exchange.h"

namespace hammock {
namespace plugins {
namespace {

/// The size of the table in version 1.0; tables only grow.
constexpr size_t kFirstSize = offsetof(HammockPlugin, numbers) + sizeof(HammockPlugin::numbers);
constexpr size_t kMostSize = 1 << 16;

std::mutex& Mutex() {
  static auto& mutex = NeverDestroyed<std::mutex>();
  return mutex;
}
std::vector<Plugin>& List() {
  static auto& list = NeverDestroyed<std::vector<Plugin>>();
  return list;
}

void CheckVersion(const HammockPlugin& given, const std::string& path) {
  if (given.version_major != HAMMOCK_PLUGIN_MAJOR) {
    Throw<NotSupported>(ErrorCode::kAbiMismatch,
                        "plug-in '{}' was built for version {}.{} of the plug-in interface, this "
                        "library has version {}.{}",
                        path, given.version_major, given.version_minor, HAMMOCK_PLUGIN_MAJOR,
                        HAMMOCK_PLUGIN_MINOR);
  }
  if (given.struct_size < kFirstSize || given.struct_size > kMostSize) {
    Throw(ErrorCode::kAbiMismatch,
          "plug-in '{}': its table says that it has {} bytes, one of version {}.{} has {} or more",
          path, given.struct_size, HAMMOCK_PLUGIN_MAJOR, 0, kFirstSize);
  }
}

void CheckComplete(const HammockPlugin& table, const std::string& path) {
  const bool exchanges = table.exchange_alignment != 0;
  const std::pair<const char*, bool> required[] = {
      {"name", table.name != nullptr},
      {"device_count", table.device_count != nullptr},
      {"memory_info", table.memory_info != nullptr},
      {"upload", table.upload != nullptr},
      {"download", table.download != nullptr},
      {"release", table.release != nullptr},
      {"compile", table.compile != nullptr},
      {"release_executable", table.release_executable != nullptr},
      {"execute", table.execute != nullptr},
      {"come_after", !exchanges || table.come_after != nullptr},
      {"let_come_after", !exchanges || table.let_come_after != nullptr},
      {"borrow", !exchanges || table.borrow != nullptr},
      {"lend", !exchanges || table.lend != nullptr},
      {"take_back", !(exchanges || table.share) || table.take_back != nullptr},
  };
  std::vector<const char*> missing;
  for (auto [name, there] : required) {
    if (!there) missing.push_back(name);
  }
  if (missing.empty()) return;
  Throw(ErrorCode::kValue, "plug-in '{}': its table lacks {}", path, fmt::join(missing, ", "));
}

std::unique_ptr<PluginBackend> MakeBackend(const HammockPlugin& table,
                                           std::unique_ptr<PluginHost> host,
                                           const std::string& source) {
  if (table.exchange_alignment == 0) {
    return std::make_unique<PluginBackend>(table, std::move(host), source);
  }
  return std::make_unique<ExchangingPlugin>(table, std::move(host), source);
}

}  // namespace

Plugin Register(const HammockPlugin* (*entry)(const HammockHost* host), const std::string& source) {
  if (!entry) Throw(ErrorCode::kValue, "plug-in '{}': its entry is null", source);
  auto host = std::make_unique<PluginHost>();
  const HammockPlugin* given = nullptr;
  try {
    given = entry(host->table());
  } catch (...) {
    Throw(ErrorCode::kValue, "plug-in '{}': hammock_plugin threw an exception", source);
  }
  if (!given)
    Throw(ErrorCode::kValue, "plug-in '{}' gave no table: it cannot be used here", source);
  CheckVersion(*given, source);
  HammockPlugin table = {};
  std::memcpy(&table, given, std::min<size_t>(given->struct_size, sizeof(table)));
  CheckComplete(table, source);
  host->SetName(table.name);
  try {
    host->DeclareOptions(table);
  } catch (Error& error) {
    error.SetMessage(fmt::format("plug-in '{}': {}", source, error.message()));
    error.Raise();
  }
  Plugin plugin{table.name, table.version ? table.version : "", source,
                static_cast<int>(table.version_major), static_cast<int>(table.version_minor)};
  // For ever: its data may outlive everything else, and it was handed pointers of the host.
  static auto& backends = NeverDestroyed<std::vector<std::unique_ptr<PluginBackend>>>();
  std::unique_ptr<PluginBackend> backend = MakeBackend(table, std::move(host), source);
  PluginBackend* kept = backend.get();
  {
    std::lock_guard lock(Mutex());
    backends.push_back(std::move(backend));
  }
  lazy::RegisterBackend(kept);
  try {
    if (!jit::IsDelegate(plugin.name)) {
      jit::RegisterDelegate(jit::DeviceDelegateOf(plugin.name, plugin.name));
    }
  } catch (...) {  // parts of a delegate have that name already
    lazy::UnregisterBackend(plugin.name);
    throw;
  }
  std::lock_guard lock(Mutex());
  List().push_back(plugin);
  return plugin;
}

Plugin Load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) Throw(ErrorCode::kValue, "cannot open plug-in '{}': {}", path, dlerror());
  auto* entry = reinterpret_cast<decltype(&hammock_plugin)>(dlsym(library, "hammock_plugin"));
  if (!entry) {
    Throw(ErrorCode::kValue,
          "'{}' is no plug-in: it exports no function `hammock_plugin` (a C++ backend is loaded by "
          "the option `load`)",
          path);
  }
  return Register(entry, path);
}

std::vector<Plugin> Loaded() {
  std::lock_guard lock(Mutex());
  return List();
}

}  // namespace plugins

void OpenPlugin(const std::string& path) {
  auto loaded = [&](const plugins::Plugin& plugin) { return plugin.path == path; };
  if (!std::ranges::any_of(plugins::Loaded(), loaded)) plugins::Load(path);
}

}  // namespace hammock
