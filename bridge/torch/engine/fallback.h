#pragma once
/// One op by PyTorch's own CPU kernels, for what Hammock does not take: counted, named once in a
/// warning, or in strict mode refused.

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <hammock/ir/any.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hammock_torch {

/// Pops arguments and pushes results, on CPU tensors.
using EagerFn = std::function<void(torch::jit::Stack&)>;

/// Runs `eager` on the values; tensors that its schema says are written get the new values.
hammock::Any RunEagerly(const c10::FunctionSchema& schema, const EagerFn& eager,
                        const std::vector<hammock::Any>& values, const std::string& why);

/// The same for ops on numbers and lists alone, which are no work for a device: not counted.
hammock::Any RunOnHost(const c10::FunctionSchema& schema, const EagerFn& eager,
                       const std::vector<hammock::Any>& values);

/// Strict mode: Unsupported instead of a fallback. At first from HAMMOCK_TORCH_STRICT.
bool IsStrict();
void SetStrict(bool strict);

/// How many ops of which name fell back, since the start or the last reset.
std::map<std::string, int64_t> FallbackCounts();
void ResetFallbackCounts();

}  // namespace hammock_torch
