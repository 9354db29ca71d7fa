#pragma once
/// Schedules of the graphs in attributes: branches, conditions and bodies of loops.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "backends/common/saved_program.h"

namespace hammock {

/// By the hash of the graph.
using SavedBodies = std::map<std::string, SavedProgram>;

/// While one lives, FindSavedBody finds these on the thread that made it.
class SavedBodiesScope {
 public:
  explicit SavedBodiesScope(const SavedBodies& bodies);
  ~SavedBodiesScope();
  SavedBodiesScope(const SavedBodiesScope&) = delete;
  SavedBodiesScope& operator=(const SavedBodiesScope&) = delete;

 private:
  const SavedBodies* const outer_;
};

/// The saved program of a graph in an attribute; it runs that very graph.
std::optional<SavedProgram> FindSavedBody(std::shared_ptr<const Graph> graph);

}  // namespace hammock
