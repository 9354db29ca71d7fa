#pragma once
/// Functions that the ways of lowering a module share.

#include <string>

#include "hammock/jit/to_backend.h"

namespace hammock::jit {

/// A copy of the module in which methods that are code, and have examples, are graphs.
ModulePtr CloneTraced(Module& module, const LowerOptions& options, Location at);

/// Preprocesses and compiles methods of a module, which from then on forwards them to its new child
/// `__loweredModule__`.
void LowerMethods(const std::string& backend, Module& module, const AnyDict& spec);

/// ValueError where a graph of a module above `path` has that submodule's ops in it: lowering the
/// submodule would not change what the graph runs.
void CheckNotInlined(const Module& module, const std::string& path);

}  // namespace hammock::jit
