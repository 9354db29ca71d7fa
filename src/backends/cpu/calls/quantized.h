#pragma once

#include "backends/cpu/calls/call_kit.h"

namespace hammock::cpu {

std::span<const CallEntry> QuantizedCalls();
bool RunsWholeQuantized(const Graph& graph, const GraphNode& node);

}  // namespace hammock::cpu
