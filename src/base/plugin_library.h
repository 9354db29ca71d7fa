#pragma once
/// Plug-in libraries: optional parts of Hammock with dependencies of their own, in libraries that
/// lie beside it and are opened when they are first needed.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/never_destroyed.h"
#include "hammock/option.h"

namespace hammock {

/// A plug-in that exports one function, which returns one table that begins with its `abi`.
struct PluginSpec {
  const char* file;     ///< "libhammock-llvm.so"
  const char* entry;    ///< the function
  uint32_t abi;         ///< that this library needs
  const char* without;  ///< "no code is compiled without the LLVM plug-in (option cpu.llvm_plugin)"
  bool own_symbols = false;  ///< symbols that it defines itself come before those of the process
};

/// The tables of a plug-in, one for each file that was asked for. Thread-safe; never destroyed.
class PluginLibrary {
 public:
  explicit PluginLibrary(const PluginSpec& spec) : spec_(spec) {}

  struct Opened {
    const void* table = nullptr;
    std::string reason;  ///< why there is none

    /// The table; NotSupported in the name of `user` ("gloo") if there is none.
    template <class Table>
    const Table& TableFor(const char* user) const {
      if (!table) ThrowAbsent(user);
      return *static_cast<const Table*>(table);
    }
    [[noreturn]] void ThrowAbsent(const char* user) const;
  };
  /// `setting` is a path; empty: the file beside this library, or where the system finds it. Tried
  /// once for each setting; a library that was opened stays.
  const Opened& Open(const std::string& setting);

  /// The table; null if there is none.
  template <class Table>
  const Table* Find(const std::string& setting) {
    return static_cast<const Table*>(Open(setting).table);
  }

 private:
  Opened OpenFile(const std::string& path) const;

  const PluginSpec spec_;
  std::mutex mutex_;
  std::map<std::string, Opened> tried_;
};

/// The plug-in that `spec` describes, from the file that the option names. One call site a plug-in.
template <auto& file_option>
const PluginLibrary::Opened& OpenPlugin(const PluginSpec& spec) {
  static auto& plugin = NeverDestroyed<PluginLibrary>(spec);
  return plugin.Open(config::Get<file_option>());
}

}  // namespace hammock
