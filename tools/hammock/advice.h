#pragma once

#include <string>

namespace hammock::tool {

/// Whether a program can do something about compiles of this kind (CompileMiss::kind); the first
/// graph has to be compiled by somebody.
bool IsAvoidable(const std::string& kind);

/// What to do about them, in a sentence or two. `generalised` is CompileMiss::generalised.
std::string AdviceFor(const std::string& kind, const std::string& generalised = "");

}  // namespace hammock::tool
