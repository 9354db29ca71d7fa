#include "base/load_libraries.h"

#include <dlfcn.h>

#include <mutex>
#include <sstream>
#include <string>

#include "base/throw.h"
#include "hammock/config.h"

namespace hammock {

constinit config::Option<std::string> config::kLoad({
    .name = "load",
    .default_value = "",
    .doc = "Libraries to open before the first use of a device or delegate, separated by colons; "
           "they add backends, delegates, ops and options.",
});
namespace {

void OpenAll(const std::string& list) {
  std::istringstream paths(list);
  for (std::string path; std::getline(paths, path, ':');) {
    // Opened for good: what it registered may be used until the process ends.
    if (path.empty() || dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) continue;
    Throw(ErrorCode::kValue, "option load: cannot open '{}': {}", path, dlerror());
  }
}

}  // namespace

bool OpenListedLibraries() {
  static std::once_flag opened;
  constinit static thread_local bool opening = false;  // a library that is opened registers things
  if (opening) return false;
  struct Scope {
    Scope() { opening = true; }
    ~Scope() { opening = false; }
  };
  std::call_once(opened, [] {
    Scope scope;
    OpenAll(config::Get<config::kLoad>());
  });
  return true;
}

}  // namespace hammock
