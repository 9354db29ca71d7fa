#include "backends/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hammock::cuda {

Library::Library(const std::vector<std::string>& names) {
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/nvidia/lib64/"}) {
    for (const std::string& name : names) {
      handle_ = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_) return;
    }
  }
  why_absent_ = fmt::format("{} cannot be opened", fmt::join(names, ", "));
}

void* Library::Symbol(const char* name) {
  if (!handle_) return nullptr;
  void* symbol = dlsym(handle_, name);
  if (!symbol && why_absent_.empty()) why_absent_ = fmt::format("there is no function {}", name);
  return symbol;
}

}  // namespace hammock::cuda
