#include "backends/common/saved_bodies.h"

#include <utility>

namespace hammock {
namespace {

constinit thread_local const SavedBodies* saved_bodies = nullptr;

}  // namespace

SavedBodiesScope::SavedBodiesScope(const SavedBodies& bodies)
    : outer_(std::exchange(saved_bodies, &bodies)) {}
SavedBodiesScope::~SavedBodiesScope() { saved_bodies = outer_; }

std::optional<SavedProgram> FindSavedBody(std::shared_ptr<const Graph> graph) {
  if (!saved_bodies) return std::nullopt;
  auto found = saved_bodies->find(ToString(graph->hash()));
  if (found == saved_bodies->end()) return std::nullopt;
  SavedProgram body = found->second;
  body.graph = std::move(graph);
  return body;
}

}  // namespace hammock
