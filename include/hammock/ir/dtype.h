#pragma once
/// Element types. Every fact of a dtype stands in one table, `InfoOf`.

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>

#include "hammock/export.h"
#include "hammock/ir/half.h"

namespace hammock {

/// The values are stable: they are written to archives.
enum class DType : uint8_t {
  kBool = 0,
  kU8 = 1,
  kU16 = 2,
  kU32 = 3,
  kU64 = 4,
  kI8 = 5,
  kI16 = 6,
  kI32 = 7,
  kI64 = 8,
  kF16 = 9,
  kBF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 13,   ///< two f32, the real part first
  kC128 = 14,  ///< two f64
  // Storage types: cast, moved and viewed, not computed with (storage_types.h).
  kF8E4M3 = 15,
  kF8E5M2 = 16,
  kI4 = 17,
  kU4 = 18,
  kI2 = 19,
  kU2 = 20,
};
inline constexpr int kNumDTypes = 21;

enum class DTypeKind : uint8_t { kBool, kUnsigned, kSigned, kFloat, kComplex };

struct DTypeInfo {
  DType dtype;
  std::string_view name;        ///< "f32", as in graph text
  std::string_view torch_name;  ///< "float32"
  int bits;
  DTypeKind kind;
  bool supported;  ///< false for storage types
  double lowest;   ///< smallest finite value
  double highest;  ///< largest finite value
  double epsilon;  ///< distance from 1 to the next value, 0 for integers
};

HAMMOCK_API extern const DTypeInfo kDTypeTable[kNumDTypes];

inline const DTypeInfo& InfoOf(DType dtype) { return kDTypeTable[static_cast<int>(dtype)]; }
inline std::string_view NameOf(DType dtype) { return InfoOf(dtype).name; }
/// "f32"
HAMMOCK_API std::ostream& operator<<(std::ostream& os, DType dtype);
inline bool IsFloat(DType dtype) { return InfoOf(dtype).kind == DTypeKind::kFloat; }
inline bool IsComplex(DType dtype) { return InfoOf(dtype).kind == DTypeKind::kComplex; }
/// Floats and complex numbers: what has a gradient.
inline bool IsFloatOrComplex(DType dtype) { return InfoOf(dtype).kind >= DTypeKind::kFloat; }
inline bool IsSigned(DType dtype) { return InfoOf(dtype).kind >= DTypeKind::kSigned; }
/// bool counts as integral, as in PyTorch's `isIntegralType(t, includeBool=true)`.
inline bool IsIntegral(DType dtype) { return InfoOf(dtype).kind <= DTypeKind::kSigned; }
/// Bytes of `count` elements; sub-byte types are packed.
inline int64_t BytesOf(DType dtype, int64_t count) { return (count * InfoOf(dtype).bits + 7) / 8; }

/// By short or PyTorch name ("f32", "float32", "float").
HAMMOCK_API std::optional<DType> DTypeFromName(std::string_view name);

/// The dtype that PyTorch's `promote_types` gives. Throws TypeError where PyTorch has none.
HAMMOCK_API DType PromoteTypes(DType a, DType b);

inline constexpr DType kDefaultFloat = DType::kF32;
inline constexpr DType kDefaultComplex = DType::kC64;

/// The dtype of the parts of a complex one; any other itself.
inline DType RealOf(DType dtype) {
  return dtype == DType::kC64 ? DType::kF32 : dtype == DType::kC128 ? DType::kF64 : dtype;
}
/// The complex dtype that holds every value of a dtype, as nearly as there is one.
inline DType ComplexOf(DType dtype) {
  return RealOf(dtype) == DType::kF64 ? DType::kC128 : DType::kC64;
}

// Names for users.
inline constexpr DType boolean = DType::kBool;
inline constexpr DType u8 = DType::kU8, u16 = DType::kU16, u32 = DType::kU32, u64 = DType::kU64;
inline constexpr DType i8 = DType::kI8, i16 = DType::kI16, i32 = DType::kI32, i64 = DType::kI64;
inline constexpr DType f16 = DType::kF16, bf16 = DType::kBF16, f32 = DType::kF32, f64 = DType::kF64;
inline constexpr DType c64 = DType::kC64, c128 = DType::kC128;

/// DTypeOf<T>: the dtype of a C++ element type.
template <class T>
struct DTypeOfT;
#define HAMMOCK_DTYPE_OF(T, D)               \
  template <>                                \
  struct DTypeOfT<T> {                       \
    static constexpr DType value = DType::D; \
  };
HAMMOCK_DTYPE_OF(bool, kBool)
HAMMOCK_DTYPE_OF(uint8_t, kU8)
HAMMOCK_DTYPE_OF(uint16_t, kU16)
HAMMOCK_DTYPE_OF(uint32_t, kU32)
HAMMOCK_DTYPE_OF(uint64_t, kU64)
HAMMOCK_DTYPE_OF(int8_t, kI8)
HAMMOCK_DTYPE_OF(int16_t, kI16)
HAMMOCK_DTYPE_OF(int32_t, kI32)
HAMMOCK_DTYPE_OF(int64_t, kI64)
HAMMOCK_DTYPE_OF(Half, kF16)
HAMMOCK_DTYPE_OF(BFloat16, kBF16)
HAMMOCK_DTYPE_OF(float, kF32)
HAMMOCK_DTYPE_OF(double, kF64)
#undef HAMMOCK_DTYPE_OF

/// std::complex<float> and std::complex<double>. Their header, which takes a sixth of the time of
/// all others, is the caller's to include.
template <class T>
concept ComplexNumber = requires(const T& z) {
  requires std::floating_point<typename T::value_type>;
  requires sizeof(T) == 2 * sizeof(typename T::value_type);
  { z.real() } -> std::same_as<typename T::value_type>;
  { z.imag() } -> std::same_as<typename T::value_type>;
};
template <ComplexNumber T>
struct DTypeOfT<T> {
  static constexpr DType value = sizeof(T) == 8 ? DType::kC64 : DType::kC128;
};
template <class T>
inline constexpr DType DTypeOf = DTypeOfT<T>::value;

}  // namespace hammock
