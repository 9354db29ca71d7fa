#pragma once
/// A typed number. Literals give bool, i64, f64 or c128; `To` converts as a cast does.

#include <bit>
#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <type_traits>

#include "hammock/export.h"
#include "hammock/ir/dtype.h"

namespace hammock {

class HAMMOCK_API Scalar {
 public:
  Scalar() : Scalar(int64_t{0}) {}
  template <std::same_as<bool> T>  // not what merely converts to bool: pointers
  Scalar(T value) : bits_(value), dtype_(DType::kBool) {}  // NOLINT: implicit like a number
  template <std::integral T>
  requires(!std::same_as<T, bool>) Scalar(T value)
      : bits_(static_cast<uint64_t>(value)), dtype_(DTypeOf<WidestInt<T>>) {}           // NOLINT
  Scalar(double value) : bits_(std::bit_cast<uint64_t>(value)), dtype_(DType::kF64) {}  // NOLINT
  Scalar(float value) : Scalar(static_cast<double>(value)) {}                           // NOLINT
  Scalar(Half value) : Scalar(static_cast<double>(static_cast<float>(value))) {}        // NOLINT
  Scalar(BFloat16 value) : Scalar(static_cast<double>(static_cast<float>(value))) {}    // NOLINT
  template <ComplexNumber T>
  Scalar(const T& value)  // NOLINT
      : bits_(std::bit_cast<uint64_t>(static_cast<double>(value.real()))),
        imag_bits_(std::bit_cast<uint64_t>(static_cast<double>(value.imag()))),
        dtype_(DType::kC128) {}

  DType dtype() const { return dtype_; }
  bool IsFloating() const { return IsFloat(dtype_); }
  bool IsBool() const { return dtype_ == DType::kBool; }
  bool IsComplex() const { return hammock::IsComplex(dtype_); }
  bool IsInt() const { return !IsFloatOrComplex(dtype_) && !IsBool(); }

  double ToDouble() const;  ///< of a complex number the real part
  int64_t ToInt() const;    ///< truncates toward zero; u64 keeps its bits
  double imag() const { return std::bit_cast<double>(imag_bits_); }
  bool ToBool() const;
  /// As a C++ number; a fraction is truncated. ValueError, which `what` begins, where the value
  /// does not fit: out of range, negative for an unsigned type, not finite for an integer, or with
  /// an imaginary part for a real number.
  template <class T>
  T As(const char* what = "Scalar") const;
  /// The value rounded or wrapped to `dtype`, which the result carries.
  Scalar To(DType dtype) const;
  /// Writes the value's element of `dtype()` (at most kMaxBytes) to `out`.
  static constexpr int kMaxBytes = 16;
  void Store(void* out) const;
  static Scalar Load(DType dtype, const void* in);

  std::string to_string() const;
  /// Same dtype and same bits: distinguishes 0.0 from -0.0, equates equal NaNs.
  bool operator==(const Scalar&) const = default;
  uint64_t bits() const { return bits_; }  ///< of a complex number those of the real part
  uint64_t imag_bits() const { return imag_bits_; }
  static Scalar FromBits(DType dtype, uint64_t bits, uint64_t imag_bits = 0) {
    Scalar scalar;
    scalar.bits_ = bits;
    scalar.imag_bits_ = imag_bits;
    scalar.dtype_ = dtype;
    return scalar;
  }

 private:
  template <class T>
  using WidestInt = std::conditional_t<std::same_as<std::make_unsigned_t<T>, T> && sizeof(T) == 8,
                                       uint64_t, int64_t>;
  /// The value as an integer of so many bits, extended to 64.
  uint64_t IntegerBits(const char* what, bool is_signed, int bits) const;
  /// That a finite value did not become infinite.
  void CheckFits(const char* what, float narrowed, const char* kind, int bits) const;
  /// That a complex number is a real one.
  void CheckReal(const char* what) const;

  // Floats of every dtype, and the parts of complex numbers, are held as the bits of a double,
  // integers sign- or zero-extended.
  uint64_t bits_ = 0;
  uint64_t imag_bits_ = 0;
  DType dtype_ = DType::kI64;
};

/// The number alone: "2.5", "3", "true", "1.0+2.0j".
HAMMOCK_API std::ostream& operator<<(std::ostream& os, const Scalar& value);

template <class T>
T Scalar::As(const char* what) const {
  constexpr int kBits = 8 * sizeof(T);
  if constexpr (std::same_as<T, bool>) {
    return ToBool();
  } else if constexpr (ComplexNumber<T>) {
    using Part = typename T::value_type;
    return T(static_cast<Part>(ToDouble()), static_cast<Part>(imag()));
  } else if constexpr (std::integral<T>) {
    CheckReal(what);
    return static_cast<T>(IntegerBits(what, std::is_signed_v<T>, kBits));
  } else {
    CheckReal(what);
    T result = static_cast<T>(ToDouble());
    if constexpr (kBits <= 32) {
      CheckFits(what, static_cast<float>(result), std::same_as<T, BFloat16> ? "bf" : "f", kBits);
    }
    return result;
  }
}

}  // namespace hammock
