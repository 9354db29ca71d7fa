#pragma once
/// Runs graphs on programs of the CPU backend, in memory that shows stray accesses.

#include <vector>

#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"

namespace hammock::fuzz {

/// Each buffer ends at a page that must not be touched; results and arena begin with nonsense.
/// Throws InternalError where something before a buffer or an input was written, or where a kernel
/// that should be compiled is not.
std::vector<HostTensor> RunOnCpu(const Graph& graph, const std::vector<HostTensor>& inputs,
                                 bool compiled, int threads);

int64_t ProgramsRun(bool compiled);
int64_t KernelsRun(bool compiled);

}  // namespace hammock::fuzz
