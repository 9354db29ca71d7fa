#include "backends/cpu/cpu_backend.h"
#include "backends/null/null_backend.h"
#include "backends/reference/interpreter.h"
#include "backends/reference/reference_backend.h"
#include "lazy/backend_registry.h"

namespace hammock {

std::vector<lazy::BackendImplInterface*> InTreeBackends() {
  return {ReferenceBackend(), NullBackend(), CpuBackend()};
}

std::vector<HostTensor> EvaluateOnHost(const Graph& graph, std::span<const HostTensor> inputs) {
  return reference::Interpret(graph, inputs);
}

}  // namespace hammock
