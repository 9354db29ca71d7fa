#pragma once
/// Parts of backends that run schedules: the sources of outputs, and texts of errors.

#include <string>
#include <vector>

#include "compiler/loops/schedule.h"

namespace hammock::compiler {

/// With `origin`, which passes keep, as the node's number in its graph or body, so that errors name
/// nodes as given.
Graph WithOrigins(Graph graph);

/// Where the value of an output comes from.
struct OutputSource {
  int input = -1;  ///< it is this input, as it is
  int same = -1;   ///< it is the memory of this earlier output
};
std::vector<OutputSource> FindOutputSources(const Schedule& schedule);

/// The largest buffers of a run, for messages.
std::string LargestBuffers(const Graph& graph, const Schedule& schedule);

}  // namespace hammock::compiler
