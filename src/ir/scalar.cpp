#include "hammock/scalar.h"

#include <cstring>
#include <ostream>

#include "base/throw.h"
#include "ir/convert.h"
#include "ir/text.h"

namespace hammock {
namespace {

// The number itself, as the type that holds it.
template <class F>
decltype(auto) VisitHeld(const Scalar& scalar, F&& f) {
  if (scalar.IsFloating()) return f(std::bit_cast<double>(scalar.bits()));
  if (scalar.dtype() == DType::kU64) return f(scalar.bits());
  return f(static_cast<int64_t>(scalar.bits()));
}

// How a Scalar of element type T holds `value`.
template <class T>
Scalar Hold(T value) {
  if constexpr (kIsReal<T>) {
    return Scalar::FromBits(DTypeOf<T>, std::bit_cast<uint64_t>(static_cast<double>(value)));
  } else {
    return Scalar::FromBits(DTypeOf<T>, static_cast<uint64_t>(value));
  }
}

}  // namespace

double Scalar::ToDouble() const {
  return VisitHeld(*this, [](auto value) { return static_cast<double>(value); });
}

int64_t Scalar::ToInt() const {
  return VisitHeld(*this, [](auto value) { return Convert<int64_t>(value); });
}

bool Scalar::ToBool() const {
  return VisitHeld(*this, [](auto value) { return value != 0; });
}

Scalar Scalar::To(DType dtype) const {
  if (dtype == dtype_) return *this;
  return VisitDType(dtype, [&](auto zero) {
    return VisitHeld(*this, [](auto value) { return Hold(Convert<decltype(zero)>(value)); });
  });
}

void Scalar::Store(void* out) const {
  VisitDType(dtype_, [&](auto zero) {
    auto element = VisitHeld(*this, [](auto value) { return Convert<decltype(zero)>(value); });
    std::memcpy(out, &element, sizeof(element));
  });
}

Scalar Scalar::Load(DType dtype, const void* in) {
  return VisitDType(dtype, [&](auto element) {
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

void Scalar::ThrowDoesNotFit(const char* what, const char* kind, int bits) const {
  Throw(ErrorCode::kValue, "{}: the value {} does not fit {}{}", what, NumberText(*this), kind,
        bits);
}

std::ostream& operator<<(std::ostream& os, const Scalar& value) { return os << NumberText(value); }

std::string Scalar::to_string() const {
  std::string out;
  AppendScalar(out, *this);
  return out;
}

}  // namespace hammock
