#pragma once
/// The cache of compiled code, by its source: in this process, then in `cache_dir`.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "backends/cpu/code/llvm_compiler.h"
#include "backends/cpu/code/native_code.h"

namespace hammock::cpu {

/// The whole key of code on disk: `source`, the versions of Hammock and LLVM, this CPU, `options`.
std::string CodeKey(std::string_view source, const CompileOptions& options);

/// Compiles and links, without any cache.
CodeBlob CompileCode(std::string_view ir, const CompileOptions& options = {});

/// The code of `source`, a canonical graph or the IR itself. `emit` returns the IR, which depends
/// on `source` alone, and is called only if no cache has the code. Code stays in the process as
/// long as it has a holder. Thread-safe; two threads that want the same new code may both compile
/// it, and get one of the two. Throws as `LlvmCompiler`, `LinkObject` and `emit` do.
std::shared_ptr<const LoadedCode> GetCode(std::string_view source,
                                          const std::function<std::string()>& emit,
                                          const CompileOptions& options = {});

/// Adds code from an archive, by key, for the life of the process. Keys of other versions or CPUs
/// are never looked up.
void KeepCode(const std::string& key, const CodeBlob& blob);
/// Whether GetCode would neither read a file nor compile.
bool IsLive(std::string_view source, const CompileOptions& options = {});

}  // namespace hammock::cpu
