#pragma once
/// The cache of compiled code, by its source: in this process, then in `cache_dir`.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "backends/cpu/code/llvm_compiler.h"
#include "backends/cpu/code/native_code.h"

namespace hammock::cpu {

/// The whole key of code on disk: `source`, this build of the library, the version of LLVM, this
/// CPU, `options`.
std::string CodeKey(std::string_view source, const CompileOptions& options);

/// Compiles and links, without any cache.
CodeBlob CompileCode(std::string_view ir, const CompileOptions& options = {});

/// The code of `source` in this process or in `cache_dir`; null if there is none.
std::shared_ptr<const LoadedCode> FindCode(std::string_view source,
                                           const CompileOptions& options = {});

/// The code of `source`, a canonical graph or the IR itself. `emit` returns the IR, which depends
/// on `source` alone, and is called only if no cache has the code. Code stays in the process as
/// long as it has a holder. Thread-safe; two threads that want the same new code may both compile
/// it, and get one of the two. Throws as `LlvmCompiler`, `LinkObject` and `emit` do.
std::shared_ptr<const LoadedCode> GetCode(std::string_view source,
                                          const std::function<std::string()>& emit,
                                          const CompileOptions& options = {});

/// Adds saved code, by key, as long as the result or a kernel holds it. Keys of other builds or
/// CPUs are never looked up.
std::shared_ptr<const LoadedCode> AddCode(const std::string& key, const CodeBlob& blob);
/// Whether GetCode would neither read a file nor compile.
bool IsLive(std::string_view source, const CompileOptions& options = {});

}  // namespace hammock::cpu
