#pragma once
/// Schedules of the graphs in attributes: branches, conditions and bodies of loops.

#include <map>
#include <memory>
#include <string>

#include "backends/cpu/program.h"

namespace hammock::cpu {

/// By the hash of the graph.
using SavedBodies = std::map<std::string, SavedProgram>;

/// While one lives, BodyProgram finds these on the thread that made it.
class SavedBodiesScope {
 public:
  explicit SavedBodiesScope(const SavedBodies& bodies);
  ~SavedBodiesScope();
  SavedBodiesScope(const SavedBodiesScope&) = delete;
  SavedBodiesScope& operator=(const SavedBodiesScope&) = delete;

 private:
  const SavedBodies* const outer_;
};

/// The program of a graph in an attribute, by its saved schedule if there is one.
Program BodyProgram(std::shared_ptr<const Graph> graph);

}  // namespace hammock::cpu
