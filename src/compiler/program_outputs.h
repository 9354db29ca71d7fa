#pragma once
/// What all backends that run schedules need: where outputs get their memory from, and words for
/// errors.

#include <string>
#include <vector>

#include "compiler/schedule.h"

namespace hammock::compiler {

/// With `origin`, which passes keep, as the node's number, so that errors name nodes as given.
Graph WithOrigins(const Graph& graph);

/// Where the value of an output comes from.
struct OutputSource {
  int input = -1;  ///< it is this input, as it is
  int same = -1;   ///< it is the memory of this earlier output
};
std::vector<OutputSource> FindOutputSources(const Schedule& schedule);

/// By output: inputs whose memory it may take in a run that they are donated to: nothing reads them
/// afterwards, and nothing can fail any more when it is written. `group_last`: for each step the
/// last of those that may run at the same time.
std::vector<std::vector<int>> FindReplaceable(const Graph& graph, const Schedule& schedule,
                                              const std::vector<int>& group_last);

/// What takes most of a run's memory, for messages.
std::string LargestBuffers(const Graph& graph, const Schedule& schedule);

}  // namespace hammock::compiler
