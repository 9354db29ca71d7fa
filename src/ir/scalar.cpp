#include "hammock/scalar.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <ostream>

#include "base/throw.h"
#include "ir/convert_stored.h"
#include "ir/text.h"

namespace hammock {
namespace {

// The number itself, as the type that holds it.
template <class F>
decltype(auto) VisitHeld(const Scalar& scalar, F&& f) {
  if (scalar.IsComplex()) return f(scalar.As<std::complex<double>>());
  if (scalar.IsFloating()) return f(std::bit_cast<double>(scalar.bits()));
  if (scalar.dtype() == DType::kU64) return f(scalar.bits());
  return f(static_cast<int64_t>(scalar.bits()));
}

// How a Scalar of element type T holds `value`.
template <class T>
Scalar Hold(T value) {
  if constexpr (kIsComplex<T>) {
    auto bits = [](auto part) { return std::bit_cast<uint64_t>(static_cast<double>(part)); };
    return Scalar::FromBits(DTypeOf<T>, bits(value.real()), bits(value.imag()));
  } else if constexpr (kIsReal<T> || kIsFloat8<T>) {
    return Scalar::FromBits(DTypeOf<T>, std::bit_cast<uint64_t>(static_cast<double>(value)));
  } else {
    return Scalar::FromBits(DTypeOf<T>, static_cast<uint64_t>(value));
  }
}

[[noreturn, gnu::cold]] void ThrowDoesNotFit(const char* what, const Scalar& value,
                                             const char* kind, int bits) {
  Throw(ErrorCode::kValue, "{}: the value {} does not fit {}{}", what, NumberText(value), kind,
        bits);
}

}  // namespace

double Scalar::ToDouble() const {
  if (IsFloatOrComplex(dtype_)) return std::bit_cast<double>(bits_);
  if (dtype_ == DType::kU64) return static_cast<double>(bits_);
  return static_cast<double>(static_cast<int64_t>(bits_));
}

int64_t Scalar::ToInt() const {
  return VisitHeld(*this, [](auto value) { return Convert<int64_t>(value); });
}

bool Scalar::ToBool() const {
  return VisitHeld(*this, [](auto value) { return Convert<bool>(value); });
}

Scalar Scalar::To(DType dtype) const {
  if (dtype == dtype_) return *this;
  if (hammock::IsComplex(dtype)) {
    // Each part by itself: of two neighbours g++ 12 drops the rounding to float and back.
    const DType part = RealOf(dtype);
    Scalar real = IsComplex() ? Scalar(ToDouble()).To(part) : To(part);
    return FromBits(dtype, real.bits(), Scalar(imag()).To(part).bits());
  }
  if (IsPacked(dtype)) {
    return FromBits(dtype, static_cast<uint64_t>(WrapPacked(dtype, ToInt())));
  }
  return VisitStored(dtype, [&](auto zero) {
    return VisitHeld(*this, [](auto value) { return Hold(ConvertStored<decltype(zero)>(value)); });
  });
}

void Scalar::Store(void* out) const {
  if (IsPacked(dtype_)) {
    const auto byte = static_cast<uint8_t>(bits_ & ((1u << InfoOf(dtype_).bits) - 1));
    std::memcpy(out, &byte, 1);
    return;
  }
  VisitStored(dtype_, [&](auto zero) {
    auto element =
        VisitHeld(*this, [](auto value) { return ConvertStored<decltype(zero)>(value); });
    std::memcpy(out, &element, sizeof(element));
  });
}

Scalar Scalar::Load(DType dtype, const void* in) {
  if (IsPacked(dtype)) {
    uint8_t byte = 0;
    std::memcpy(&byte, in, 1);
    return FromBits(dtype, static_cast<uint64_t>(WrapPacked(dtype, byte)));
  }
  return VisitStored(dtype, [&](auto element) {
    if constexpr (std::same_as<decltype(element), bool>) {
      uint8_t byte = 0;  // any nonzero byte reads as true
      std::memcpy(&byte, in, 1);
      return Scalar(byte != 0);
    } else {
      std::memcpy(&element, in, sizeof(element));
      return Hold(element);
    }
  });
}

uint64_t Scalar::IntegerBits(const char* what, bool is_signed, int bits) const {
  const int digits = bits - is_signed;
  const uint64_t largest = ~uint64_t{0} >> (64 - digits);
  const int64_t least = is_signed ? -static_cast<int64_t>(largest) - 1 : 0;
  if (IsFloatOrComplex(dtype_)) {
    // One past the largest is a power of two, which a double holds exactly.
    double value = std::trunc(ToDouble());
    if (value >= static_cast<double>(least) && value < std::ldexp(1.0, digits)) {
      return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value))
                       : static_cast<uint64_t>(value);
    }
  } else {
    bool negative = dtype_ != DType::kU64 && static_cast<int64_t>(bits_) < 0;
    if (negative ? static_cast<int64_t>(bits_) >= least : bits_ <= largest) return bits_;
  }
  ThrowDoesNotFit(what, *this, is_signed ? "i" : "u", bits);
}

void Scalar::CheckReal(const char* what) const {
  if (!IsComplex() || imag() == 0) return;
  Throw(ErrorCode::kValue, "{}: the value {} has an imaginary part, which a real number has not",
        what, NumberText(*this));
}

void Scalar::CheckFits(const char* what, float narrowed, const char* kind, int bits) const {
  if (std::isfinite(ToDouble()) && !std::isfinite(narrowed)) {
    ThrowDoesNotFit(what, *this, kind, bits);
  }
}

std::ostream& operator<<(std::ostream& os, const Scalar& value) { return os << NumberText(value); }

std::string Scalar::to_string() const {
  std::string out;
  AppendScalar(out, *this);
  return out;
}

}  // namespace hammock
