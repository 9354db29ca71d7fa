#include "base/plugin_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/throw.h"

namespace hammock {
namespace {

/// The path of a file in the folder of this library; empty if there is none.
std::string BesideThisLibrary(const char* file) {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void*>(&BesideThisLibrary), &info)) return "";
  std::filesystem::path path = std::filesystem::path(info.dli_fname).parent_path() / file;
  std::error_code none;
  return std::filesystem::exists(path, none) ? path.string() : "";
}

/// Whether the program was built with a sanitizer that ends it where RTLD_DEEPBIND is asked for.
bool HasSanitizer() {
  for (const char* symbol : {"__asan_init", "__tsan_init", "__msan_init"}) {
    if (dlsym(RTLD_DEFAULT, symbol)) return true;
  }
  return false;
}

std::vector<std::string> Candidates(const std::string& setting, const char* file) {
  if (!setting.empty()) return {setting};
  std::vector<std::string> paths;
  if (std::string beside = BesideThisLibrary(file); !beside.empty()) paths.push_back(beside);
  paths.emplace_back(file);
  return paths;
}

}  // namespace

void PluginLibrary::Opened::ThrowAbsent(const char* user) const {
  Throw<NotSupported>(ErrorCode::kNotSupported, "{}: {}", user, reason);
}

// Never closed: threads may be inside, and not every library survives it.
PluginLibrary::Opened PluginLibrary::OpenFile(const std::string& path) const {
  int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  if (spec_.own_symbols && !HasSanitizer()) flags |= RTLD_DEEPBIND;
  void* library = dlopen(path.c_str(), flags);
  if (!library) return {nullptr, dlerror()};
  auto entry = reinterpret_cast<const void* (*)()>(dlsym(library, spec_.entry));
  if (!entry) return {nullptr, fmt::format("{} has no {}", path, spec_.entry)};
  const void* table = entry();
  const uint32_t abi = *static_cast<const uint32_t*>(table);
  if (abi == spec_.abi) return {table, ""};
  return {nullptr, fmt::format("{} has interface {}, this library needs {}", path, abi, spec_.abi)};
}

const PluginLibrary::Opened& PluginLibrary::Open(const std::string& setting) {
  std::lock_guard lock(mutex_);
  auto [at, added] = tried_.try_emplace(setting);
  Opened& opened = at->second;
  if (!added) return opened;
  std::string reasons;
  for (const std::string& path : Candidates(setting, spec_.file)) {
    opened = OpenFile(path);
    if (opened.table) return opened;
    reasons += (reasons.empty() ? "" : "; ") + opened.reason;
  }
  opened.reason = fmt::format("{}: {}", spec_.without, reasons);
  return opened;
}

}  // namespace hammock
