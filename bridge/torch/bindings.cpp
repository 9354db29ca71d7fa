// The ops torch.ops.hammock.* of Python; the package hammock_torch gives them names and docs.

#include <ATen/core/Dict.h>
#include <torch/library.h>

#include "engine/fallback.h"
#include "lazy/lazy_backend.h"

namespace {

c10::Dict<std::string, int64_t> FallbackCounts() {
  c10::Dict<std::string, int64_t> result;
  for (const auto& [op, count] : hammock_torch::FallbackCounts()) result.insert(op, count);
  return result;
}

}  // namespace

TORCH_LIBRARY(hammock, m) {
  m.def("lazy_init(str device) -> ()", hammock_torch::InitLazyBackend);
  m.def("lazy_report() -> str", hammock_torch::LazyReport);
  m.def("lazy_last_graph() -> str", hammock_torch::LastLazyGraph);
  m.def("set_strict(bool strict) -> ()", hammock_torch::SetStrict);
  m.def("is_strict() -> bool", hammock_torch::IsStrict);
  m.def("fallback_counts() -> Dict(str, int)", FallbackCounts);
  m.def("reset_fallback_counts() -> ()", hammock_torch::ResetFallbackCounts);
}
