#pragma once
/// Parts of backends that run schedules: the sources of outputs, the memory of buffers, and texts
/// of errors.

#include <span>
#include <string>
#include <vector>

#include "hammock/compiler/memory_plan.h"
#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

/// With `origin`, which passes keep, as the node's number in its graph or body, so that errors name
/// nodes as given.
HAMMOCK_API Graph WithOrigins(Graph graph);

/// Where the value of an output comes from.
struct OutputSource {
  int input = -1;  ///< it is this input, as it is
  int same = -1;   ///< it is the memory of this earlier output
};
HAMMOCK_API std::vector<OutputSource> FindOutputSources(const Schedule& schedule);

/// The memory of a run's buffers. Outputs with another source are left as they are.
template <class Pointer, class Buffers>
void SetBuffers(const Schedule& schedule, const MemoryPlan& plan,
                std::span<const OutputSource> sources, std::span<const Pointer> inputs,
                std::span<const Pointer> outputs, Pointer arena, Buffers& buffers) {
  for (BufferId buffer : schedule.buffers.ids()) {
    const int64_t offset = plan.offset[buffer];
    buffers[buffer] = offset < 0 ? Pointer() : arena + static_cast<size_t>(offset);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    buffers[schedule.inputs[i]] = inputs[i];
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (sources[i].input < 0 && sources[i].same < 0) {
      buffers[schedule.outputs[i]] = outputs[i];
    }
  }
}

/// The value whose memory a value is in: itself, or the one that it reshapes.
HAMMOCK_API GraphValue StorageOf(const Graph& graph, GraphValue value);

/// The largest buffers of a run, for messages.
HAMMOCK_API std::string LargestBuffers(const Graph& graph, const Schedule& schedule);

}  // namespace hammock::compiler
