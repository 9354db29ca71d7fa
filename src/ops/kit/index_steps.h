#pragma once
/// Parts that the families of gathers and scatters share. The caller has opened a LocationScope.

#include "hammock/tensor.h"

namespace hammock::ops {

/// Slices of `x` along `dim` at the positions in the vector `index`; none is negative.
Tensor Rows(const Tensor& x, const Tensor& index, int dim);
/// One scatter node; sums of bool are disjunctions.
Tensor Scattered(const Tensor& x, const Tensor& index, const Tensor& source, int dim,
                 const char* reduce);
/// i64 indices in which negative ones count from the end; those out of range stay out of range.
Tensor WrappedIndex(const Tensor& index, int64_t size);
/// Reads a count on which the shape of `op`'s result depends. This ends the graph, which metrics
/// and errors say with the op's name and the caller's line.
int64_t ReadCount(const char* op, const Tensor& count);
/// nonzero on behalf of `op`.
Tensor NonzeroFor(const char* op, const Tensor& self);
/// TypeError unless the mask is bool or u8.
void CheckMask(const char* op, const Tensor& mask);

}  // namespace hammock::ops
