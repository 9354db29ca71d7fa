#pragma once
/// What tracing needs of the executor.

#include "hammock/tensor.h"

namespace hammock {

struct ThreadContext;

/// Eager mode: computes `result` now. Otherwise a budget is used up: computes what the thread has
/// pending.
void AfterOpSlow(ThreadContext& context, const Tensor& result, bool eager);
/// Gives `self` another value, through views. In eager mode it is computed at once; if that fails,
/// `self` keeps the value it had.
void Write(const char* op, const Tensor& self, const Value& value);

}  // namespace hammock
