#pragma once
/// What tracing needs of the executor.

#include "hammock/tensor.h"

namespace hammock {

struct ThreadContext;

/// Eager mode: computes `result` now. Otherwise a budget is used up: computes what the thread has
/// pending.
void AfterOpSlow(ThreadContext& context, const Tensor& result, bool eager);
/// Eager mode: computes what an in-place op wrote.
void AfterWrite(const Tensor& self);

}  // namespace hammock
