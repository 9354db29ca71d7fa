#pragma once
/// Storage types: f8 and integers of less than a byte. They are cast, moved and written to files;
/// arithmetic refuses them. Integers of less than a byte are packed, the first element in the
/// lowest bits, and a row fills whole bytes. See docs/design/storage_types.md.

#include "hammock/export.h"
#include "hammock/ir/dtype.h"
#include "hammock/ir/float8.h"
#include "hammock/ir/shape.h"

namespace hammock {

inline bool IsStorage(DType dtype) { return !InfoOf(dtype).supported; }
/// Whether several elements share a byte.
inline bool IsPacked(DType dtype) { return InfoOf(dtype).bits < 8; }
/// ValueError unless rows of a packed dtype fill whole bytes. A single element has its own.
HAMMOCK_API void CheckPacked(const char* what, const Shape& shape);

// Names for users.
inline constexpr DType f8e4m3 = DType::kF8E4M3, f8e5m2 = DType::kF8E5M2;
inline constexpr DType i4 = DType::kI4, u4 = DType::kU4;
inline constexpr DType i2 = DType::kI2, u2 = DType::kU2;

template <>
struct DTypeOfT<Float8E4M3> {
  static constexpr DType value = DType::kF8E4M3;
};
template <>
struct DTypeOfT<Float8E5M2> {
  static constexpr DType value = DType::kF8E5M2;
};

}  // namespace hammock
