#include "base/load_libraries.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <sstream>
#include <string>

#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/plugins.h"

namespace hammock {

constinit config::Option<std::string> config::kLoad({
    .name = "load",
    .default_value = "",
    .doc = "Libraries to open before the first use of a device or delegate, separated by colons; "
           "they add backends, delegates, ops and options.",
});
constinit config::Option<std::string> config::kPlugins({
    .name = "plugins",
    .default_value = "",
    .doc = "Plug-ins (hammock/plugin.h) to open before the first use of a device, separated by "
           "colons.",
});

namespace {

void Open(const std::string& path) {
  // Opened for good: what it registered may be used until the process ends.
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return;
  Throw(ErrorCode::kValue, "option load: cannot open '{}': {}", path, dlerror());
}

void ForEach(const std::string& list, void (*open)(const std::string& path)) {
  std::istringstream paths(list);
  for (std::string path; std::getline(paths, path, ':');) {
    if (!path.empty()) open(path);
  }
}

}  // namespace

namespace {
std::atomic<bool> left{false};
}

void LeaveListedLibraries() { left = true; }

bool OpenListedLibraries() {
  if (left) return true;
  static std::once_flag opened;
  constinit static thread_local bool opening = false;  // a library that is opened registers things
  if (opening) return false;
  struct Scope {
    Scope() { opening = true; }
    ~Scope() { opening = false; }
  };
  std::call_once(opened, [] {
    Scope scope;
    ForEach(config::Get<config::kLoad>(), Open);
    ForEach(config::Get<config::kPlugins>(), OpenPlugin);
  });
  return true;
}

}  // namespace hammock
