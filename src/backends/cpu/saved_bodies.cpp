#include "backends/cpu/saved_bodies.h"

#include <utility>

namespace hammock::cpu {
namespace {

constinit thread_local const SavedBodies* saved_bodies = nullptr;

}  // namespace

SavedBodiesScope::SavedBodiesScope(const SavedBodies& bodies)
    : outer_(std::exchange(saved_bodies, &bodies)) {}
SavedBodiesScope::~SavedBodiesScope() { saved_bodies = outer_; }

Program BodyProgram(std::shared_ptr<const Graph> graph) {
  if (saved_bodies) {
    if (auto saved = saved_bodies->find(ToString(graph->hash())); saved != saved_bodies->end()) {
      SavedProgram body = saved->second;
      body.graph = std::move(graph);
      return Program(std::move(body));
    }
  }
  return Program(std::move(graph));
}

}  // namespace hammock::cpu
