#include "backends/table.h"

#include <fmt/format.h>

#include "backends/cpu/code/llvm_compiler.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/driver/libraries.h"
#include "backends/null/null_backend.h"
#include "backends/reference/interpreter.h"
#include "backends/reference/reference_backend.h"

namespace hammock {

namespace {

bool HasCompiler() {
#ifdef HAMMOCK_WITH_LLVM
  return !cpu::LlvmCompiler::IsOff();
#else
  return false;
#endif
}

}  // namespace

// The first one is the default. Without a compiler that is the reference backend, which is complete
// and has nothing to wait for.
std::vector<lazy::BackendImplInterface*> InTreeBackends() {
  std::vector<lazy::BackendImplInterface*> backends = {CpuBackend(), ReferenceBackend()};
  if (!HasCompiler()) std::swap(backends[0], backends[1]);
  backends.push_back(NullBackend());
  return backends;
}

std::vector<lazy::BackendImplInterface*> LateInTreeBackends() {
  lazy::BackendImplInterface* cuda = CudaBackend();
  return cuda ? std::vector{cuda} : std::vector<lazy::BackendImplInterface*>();
}

std::vector<lazy::AbsentBackend> AbsentInTreeBackends() {
  if (CudaBackend()) return {};
  std::string reason = cuda::WhyNoGpu();
  for (const lazy::DeviceFact& fact : cuda::DescribeLibraries()) {
    if (!fact.missing) reason += fmt::format("; there is {} {}", fact.name, fact.text);
  }
  return {{"cuda", reason}};
}

std::vector<HostTensor> EvaluateOnHost(const Graph& graph, std::span<const HostTensor> inputs) {
  return reference::Interpret(graph, inputs);
}

}  // namespace hammock
