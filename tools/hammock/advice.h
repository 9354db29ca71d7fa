#pragma once

#include <string>

namespace hammock::tool {

/// Why a graph was compiled: fields of CompileMiss.
struct CompileCause {
  std::string kind, trigger, generalised;
};

/// Whether a program can do something about it; the first graph has to be compiled by somebody.
bool IsAvoidable(const CompileCause& cause);

/// Advice for the cause of a compilation, in a sentence or two.
std::string AdviceFor(const CompileCause& cause);

}  // namespace hammock::tool
