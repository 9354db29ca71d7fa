#include "backends/cpu/cpu_backend.h"
#include "backends/null/null_backend.h"
#include "backends/reference/reference_backend.h"
#include "lazy/backend_registry.h"

namespace hammock {

std::vector<lazy::BackendImplInterface*> InTreeBackends() {
  return {ReferenceBackend(), NullBackend(), CpuBackend()};
}

}  // namespace hammock
