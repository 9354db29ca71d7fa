#pragma once
/// Branches and loops that are decided while a step runs, written as functions.
///
///   Tensor y = cond(x.sum() > 0.0, [](const Tensors& in) { return Tensors{in[0] * 2.0}; },
///                   [](const Tensors& in) { return Tensors{-in[0]}; }, {x})[0];
///
/// Each function is called once, with tensors that have types but no values. What it uses besides
/// its arguments is read when the call is recorded. Gradients reach operands and what `used` names.

#include <cstdint>
#include <functional>
#include <vector>

#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock {

using ControlFn = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// `then(operands)` where `predicate`, a bool of one element, holds, else `otherwise(operands)`.
HAMMOCK_API std::vector<Tensor> cond(const Tensor& predicate, const ControlFn& then,
                                     const ControlFn& otherwise,
                                     const std::vector<Tensor>& operands,
                                     const std::vector<Tensor>& used = {},
                                     Location at = Location::current());

/// `carried = body(carried)` as long as `condition(carried)`, a bool of one element, holds. Without
/// gradients.
HAMMOCK_API std::vector<Tensor> while_loop(const ControlFn& condition, const ControlFn& body,
                                           const std::vector<Tensor>& carried,
                                           Location at = Location::current());

/// Calls `body(index, carried..., slices...)` for each index below `count`: it returns the new
/// carried values, then slices of further results. `stacked` tensors have `count` slices along
/// dim 0. Returns the last carried values, then the further results, stacked.
HAMMOCK_API std::vector<Tensor> for_loop(int64_t count, const ControlFn& body,
                                         const std::vector<Tensor>& carried,
                                         const std::vector<Tensor>& stacked = {},
                                         const std::vector<Tensor>& used = {},
                                         Location at = Location::current());

}  // namespace hammock
