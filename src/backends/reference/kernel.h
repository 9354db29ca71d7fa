#pragma once
/// Kernels: one function per primitive (one for all elementwise ones), listed by family.

#include <fmt/format.h>

#include <span>
#include <utility>

#include "backends/reference/interpreter.h"
#include "base/throw.h"

namespace hammock::reference {

/// A node with its operands and results. A kernel must set every entry of `out`.
struct KernelCall {
  const GraphNode& node;
  std::span<const HostTensor* const> in;  ///< null for an absent operand
  std::span<HostTensor> out;
  std::span<const Program> graphs;  ///< the graph attributes, in order
  Hooks& hooks;

  /// Memory for a result, or for an intermediate value.
  HostTensor New(const Shape& shape) { return hooks.Allocate(shape, *node.op); }
  HostTensor& NewResult(int index = 0) { return out[index] = New(node.types[index]); }
};
using Kernel = void (*)(KernelCall& call);

struct KernelEntry {
  const OpDef* op;
  Kernel run;
};

std::span<const KernelEntry> ElementwiseKernels();  ///< cast, bitcast and complex
std::span<const KernelEntry> GenerateKernels();
std::span<const KernelEntry> ShapeKernels();
std::span<const KernelEntry> ReduceKernels();
std::span<const KernelEntry> IndexKernels();
std::span<const KernelEntry> ContractKernels();
std::span<const KernelEntry> LinalgKernels();
std::span<const KernelEntry> FftKernels();
std::span<const KernelEntry> ControlKernels();
std::span<const KernelEntry> CollectiveKernels();

/// Every op with a ScalarFn.
void RunElementwise(KernelCall& call);

/// Null if there is none.
Kernel FindKernel(const OpDef& op);

/// Throws ValueError with the op's name before the message.
template <class... Args>
[[noreturn, gnu::cold]] void Fail(const KernelCall& call, ErrorCode code,
                                  fmt::format_string<Args...> format, Args&&... args) {
  throw ValueError(code, fmt::format("{}: {}", call.node.op->name(),
                                     fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace hammock::reference
