#pragma once
/// Compiling before a program runs.

#include <string>

#include "hammock/export.h"
#include "hammock/jit/to_backend.h"

namespace hammock::jit {

/// Lowers all methods that are graphs to the delegate `hammock` and saves the module with compiled
/// computations for this CPU and build of the library. With LoadOptions::allow_native a process
/// runs them without a compiler; elsewhere, or without that option, graphs are compiled anew.
/// NotSupported where there is no LLVM.
HAMMOCK_API void compile_ahead(Module& module, const std::string& path,
                               const LowerOptions& options = {}, Location at = Location::current());

/// For people: what an archive has in it, without running anything of it: methods, weights,
/// delegates and placement, native code.
HAMMOCK_API std::string describe_archive(const std::string& path,
                                         Location at = Location::current());

}  // namespace hammock::jit
