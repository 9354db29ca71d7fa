// A fuzz target for ONNX files: loads one, and records what it does to zeros. The null device runs
// nothing, so that a mutation costs no more than its recording.

#include <cstdint>
#include <string>

#include "hammock/autograd.h"
#include "hammock/error.h"
#include "hammock/onnx.h"
#include "hammock/ops.h"

namespace hammock {
namespace {

Any ExampleOf(const onnx::DeclaredValue& input, const Device& device) {
  constexpr int64_t kMost = 64;
  if (!input.dtype) return AnyList();
  Dims sizes;
  for (const onnx::DeclaredDim& dim : input.dims)
    sizes.push_back(std::min(dim.size.value_or(2), kMost));
  return zeros(sizes, *input.dtype, device);
}

}  // namespace
}  // namespace hammock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hammock;
  static const Device device("null");
  try {
    NoGradGuard no_grad;
    ModulePtr module = onnx::load(std::as_bytes(std::span(data, size)), {.device = device});
    std::vector<Any> inputs;
    for (const onnx::DeclaredValue& input : onnx::inputs(*module)) {
      inputs.push_back(ExampleOf(input, device));
    }
    module->run_method("forward", inputs);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}
