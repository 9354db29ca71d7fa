#pragma once
/// The backends of this library.

#include <span>
#include <vector>

#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {

/// In order of preference: the first one is the default.
std::vector<lazy::BackendImplInterface*> InTreeBackends();
/// Backends that open libraries of a vendor, for a tenth of a second and 160 MB.
std::vector<lazy::BackendImplInterface*> LateInTreeBackends();
/// Backends of the library that do not work on this machine, with the reason.
std::vector<lazy::AbsentBackend> AbsentInTreeBackends();
/// Runs a graph of primitives on host tensors, for passes that fold.
std::vector<HostTensor> EvaluateOnHost(const Graph& graph, std::span<const HostTensor> inputs);

}  // namespace hammock
