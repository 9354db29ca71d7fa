#include "base/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

namespace hammock {

Library::Library(const std::vector<std::string>& names) {
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/nvidia/lib64/"}) {
    for (const std::string& name : names) {
      handle_ = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_) return;
    }
  }
  why_absent_ = fmt::format("{} cannot be opened", fmt::join(names, ", "));
}

std::string Library::path() const {
  link_map* map = nullptr;
  if (!handle_ || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || !map) return "";
  return map->l_name;
}

void* Library::SymbolOrNull(const char* name) const {
  return handle_ ? dlsym(handle_, name) : nullptr;
}

void* Library::Symbol(const char* name) {
  if (!handle_) return nullptr;
  void* symbol = SymbolOrNull(name);
  if (!symbol && why_absent_.empty()) why_absent_ = fmt::format("there is no function {}", name);
  return symbol;
}

}  // namespace hammock
