#pragma once
/// Loops over time, written as a function of one step.
///
///   // running sums of the rows of x
///   auto results = Loop(x.size(0), {{zero}, {x}, {}}, [](const LoopStep& s) -> Tensors {
///     Tensor sum = s.carried[0] + s.slices[0];
///     return {sum, sum};
///   });

#include <functional>
#include <span>
#include <vector>

#include "hammock/tensor.h"

namespace hammock::ops {

struct LoopOperands {
  std::vector<Tensor> carried;
  std::vector<Tensor> stacked;  // step i sees element i of their first dim
  std::vector<Tensor> invariant;
};

/// The arguments of a step: symbolic tensors. It may use no others.
struct LoopStep {
  Tensor index;  // i64[], from 0
  std::span<const Tensor> carried;
  std::span<const Tensor> slices;
  std::span<const Tensor> invariant;
};

/// Returns the new carried values, then slices of further results.
using LoopBody = std::function<std::vector<Tensor>(const LoopStep&)>;

/// One loop node: the last carried values, then the stacked further results.
std::vector<Tensor> Loop(int64_t count, const LoopOperands& operands, const LoopBody& body);

}  // namespace hammock::ops
