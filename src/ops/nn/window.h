#pragma once
/// Parts that convolution and pooling share.

#include "base/throw.h"
#include "hammock/ir/shape.h"

namespace hammock::ops {

/// One number for each of `rank` dims; a single one stands for all.
inline Dims PerDim(const char* op, const char* what, const Dims& given, int rank) {
  if (given.size() == rank) return given;
  if (given.size() == 1) return Dims::Filled(rank, given[0]);
  Throw(ErrorCode::kValue, "{}: {} needs one number or {}, got {}", op, what, rank,
        ToString(given));
}

}  // namespace hammock::ops
