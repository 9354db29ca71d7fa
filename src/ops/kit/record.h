#pragma once
/// Parts that the files of op records share: short forms for inference and its errors.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/throw.h"
#include "hammock/ir/op_def.h"

namespace hammock::ops {

/// Throws `E` with the op's name before the message.
template <class E = ValueError, class... Args>
[[noreturn, gnu::cold]] void Refuse(const InferCall& call, ErrorCode code,
                                    fmt::format_string<Args...> format, Args&&... args) {
  throw E(code,
          fmt::format("{}: {}", call.op.name(), fmt::format(format, std::forward<Args>(args)...)));
}

inline void RequireDType(const InferCall& call, bool good, const Shape& type, const char* wanted) {
  if (!good) {
    Refuse<TypeError>(call, ErrorCode::kDTypeMismatch, "{} is not supported, needs {}",
                      type.to_string(), wanted);
  }
}

inline void RequireSameDType(const InferCall& call, const Shape& a, const Shape& b) {
  if (a.dtype() == b.dtype()) return;
  Refuse<TypeError>(call, ErrorCode::kDTypeMismatch, "dtypes differ: {} and {}; cast one of them",
                    a.to_string(), b.to_string());
}

/// Indices are i64 or i32; PyTorch lets an empty one be of any dtype.
inline void RequireIndex(const InferCall& call, const Shape& index) {
  bool good = index.dtype() == DType::kI64 || index.dtype() == DType::kI32 || index.numel() == 0;
  RequireDType(call, good, index, "an i64 or i32 index");
}

/// A rank-0 operand, such as a start that is known only when running.
inline void RequireScalar(const InferCall& call, const Shape& type, const char* what) {
  if (type.rank() == 0) return;
  Refuse(call, ErrorCode::kShapeMismatch, "{} must have rank 0, not {}", what, type.to_string());
}

/// Dims are wrapped before a node is made; a 0-d tensor has the dim 0, as in PyTorch.
inline int CheckedDim(const InferCall& call, int64_t dim, const Shape& type) {
  int rank = type.rank() == 0 ? 1 : type.rank();
  if (dim < 0 || dim >= rank) {
    Refuse(call, ErrorCode::kDimOutOfRange, "dimension {} of {} is out of range [0, {})", dim,
           type.to_string(), rank);
  }
  return static_cast<int>(dim);
}

/// The size of `dim`, 1 for the dim 0 of a 0-d tensor.
inline int64_t ExtentOf(const Shape& type, int dim) {
  return type.rank() == 0 ? 1 : type.size(dim);
}

/// An attribute that lists one integer for each of `count` dims.
inline const std::vector<int64_t>& CheckedList(const InferCall& call, int attribute, size_t count) {
  const std::vector<int64_t>& list = call.attrs[attribute].ints();
  if (list.size() != count) {
    Refuse(call, ErrorCode::kValue, "{} has {} entries, needs {}",
           call.op.info().AttributeName(attribute), list.size(), count);
  }
  return list;
}

}  // namespace hammock::ops
