#pragma once
/// 8-bit floats as storage types: they convert to and from float, rounding to nearest even.

#include <bit>
#include <cstdint>

namespace hammock {

/// A sign, `kExponent` bits of exponent and the rest of mantissa.
template <int kExponent, bool kHasInfinity>
struct Float8 {
  uint8_t bits = 0;

  Float8() = default;
  Float8(float value) : bits(Encode(value)) {}  // NOLINT: implicit like a number
  operator float() const { return Decode(bits); }

  static Float8 FromBits(uint8_t bits) {
    Float8 result;
    result.bits = bits;
    return result;
  }

  static constexpr int kMantissa = 7 - kExponent;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  /// The code of every NaN: its sign is lost where GPUs widen f16.
  static constexpr uint8_t kNaN = 0x7f;
  /// Numbers that are too large become infinity, or where there is none the largest value, as in
  /// PyTorch; so does infinity.
  static constexpr uint8_t kOverflow = kHasInfinity ? 0x7c : 0x7e;
  /// The bits of the least float that becomes that.
  static constexpr uint32_t kTooLarge =
      (uint32_t(127 + kBias + 1) << 23) + (kHasInfinity ? 0 : 0x600000);
  static constexpr uint8_t kFirstNaN = kHasInfinity ? 0x7d : 0x7f;

  static uint8_t Encode(float value) {
    constexpr int kShift = 23 - kMantissa;
    constexpr uint32_t kSmallestNormal = uint32_t(127 + 1 - kBias) << 23;
    uint32_t x = std::bit_cast<uint32_t>(value);
    auto sign = static_cast<uint8_t>((x >> 24) & 0x80);
    x &= 0x7fffffff;
    if (x > 0x7f800000) return kNaN;
    if (x >= kTooLarge) return sign | kOverflow;
    if (x < kSmallestNormal) {  // subnormal: let the float adder round at the right bit
      constexpr uint32_t kMagic = uint32_t(127 + 1 - kBias - kMantissa + 23) << 23;
      float magnitude = std::bit_cast<float>(x) + std::bit_cast<float>(kMagic);
      return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(magnitude) - kMagic));
    }
    uint32_t odd = (x >> kShift) & 1;
    x += (uint32_t{1} << (kShift - 1)) - 1 + odd - (uint32_t(127 - kBias) << 23);
    return static_cast<uint8_t>(sign | (x >> kShift));
  }

  static float Decode(uint8_t bits) {
    uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24;
    uint32_t size = bits & 0x7f;
    uint32_t exponent = size >> kMantissa;
    if (size >= kFirstNaN) {
      return std::bit_cast<float>(sign | 0x7fc00000);
    }
    if (kHasInfinity && size == 0x7c) return std::bit_cast<float>(sign | 0x7f800000);
    if (exponent == 0) {
      constexpr uint32_t kUnit = uint32_t(127 + 1 - kBias - kMantissa) << 23;
      float magnitude = static_cast<float>(size) * std::bit_cast<float>(kUnit);
      return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign |
                                ((size << (23 - kMantissa)) + (uint32_t(127 - kBias) << 23)));
  }
};

/// 4 bits of exponent, largest value 448, no infinity (PyTorch's float8_e4m3fn).
using Float8E4M3 = Float8<4, false>;
/// 5 bits of exponent, largest value 57344.
using Float8E5M2 = Float8<5, true>;

}  // namespace hammock
