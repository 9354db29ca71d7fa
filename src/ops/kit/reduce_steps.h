#pragma once
/// Parts that the families of reductions share. The caller has opened a LocationScope.

#include <optional>

#include "hammock/op_builder.h"
#include "hammock/tensor.h"

namespace hammock::ops {

/// One reduce_* node; `dims` are wrapped.
Tensor Reduce(const OpDef& op, const Tensor& x, const Dims& dims, bool keepdim);
/// The dtype of a sum: `dtype` if given, i64 for integers and bool.
DType SumType(const Tensor& self, std::optional<DType> dtype);
/// A reduction without an identity needs at least one element in every reduced dim.
void NeedElements(const char* op, const Tensor& self, const Dims& dims);
/// For composites whose first attribute is the dims and that have a `keepdim`.
void InferReduced(const InferCall& call, DType dtype);
/// `x`, a result of such a composite, with the reduced dims of `self` as ones and in `dtype`: what
/// its gradient computes with.
Tensor KeptLike(const VjpCall& call, const Tensor& x, DType dtype);
/// Dims of a boxed call: none and [] mean all.
Dims BoxedDims(const std::optional<Dims>& dim);

}  // namespace hammock::ops
