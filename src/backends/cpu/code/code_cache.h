#pragma once
/// Compiled code by what it was made from: in this process, then in `cache_dir`, else compiled.

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

/// The code of `source`, which decides what `emit` returns: a canonical graph, or the IR itself.
/// `emit` gives the IR and is called only where no cache has the code. Code stays in the process as
/// long as someone holds it. Thread-safe; two threads that want the same new code may both compile
/// it, and get one of the two. Throws as `LlvmCompiler` and `LinkObject` do, and what `emit`
/// throws.
std::shared_ptr<const LoadedCode> GetCode(std::string_view source,
                                          const std::function<std::string()>& emit,
                                          const CompileOptions& options = {});

/// Code by key, for as long as the process lives: what an archive brought along. Keys of other
/// versions or CPUs are never asked for.
void KeepCode(const std::string& key, const CodeBlob& blob);
/// Whether GetCode would neither read a file nor compile.
bool IsLive(std::string_view source, const CompileOptions& options = {});

}  // namespace hammock::cpu
