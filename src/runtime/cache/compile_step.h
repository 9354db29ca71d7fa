#pragma once
/// The parts of compiling a step: lower it, then compile its segments.

#include <functional>
#include <span>
#include <string>

#include "compiler/pipeline.h"
#include "runtime/cache/computation_cache.h"

namespace hammock {

/// Expands, partitions; NotSupported where a node is refused and fallback is off.
LoweredStep LowerStep(DeviceEntry& device, const Graph& traced);

/// Compiles one graph. `devices` is the replication list; `derived` is
/// for Computation::derived_sizes.
lazy::ComputationPtr CompileGraph(DeviceEntry& device, std::span<const std::string> devices,
                                  Graph graph, std::vector<lazy::DerivedSize> derived = {});

/// How a segment of the device itself is compiled.
using SegmentCompiler = std::function<lazy::ComputationPtr(Graph)>;

/// All but key, hash and traced graph. What the device cannot compile goes to the fallback device.
CompiledStepPtr BuildStep(DeviceEntry& device, const Graph& traced, LoweredStep lowered,
                          const SegmentCompiler& compile);

/// Whether the calling thread compiles for mark_step.
bool InMarkStep();

/// Fills in the fields that follow from the segments of a step and from its traced graph.
void FinishStep(CompiledStep& step, const Graph& traced);

}  // namespace hammock
