#pragma once
/// 16-bit floats as storage types: they convert to and from float, rounding to nearest even.

#include <bit>
#include <cstdint>

namespace hammock {

struct Half {
  uint16_t bits = 0;

  Half() = default;
  Half(float value) : bits(Encode(value)) {}  // NOLINT: implicit like a number
  operator float() const { return Decode(bits); }

  static Half FromBits(uint16_t bits) {
    Half half;
    half.bits = bits;
    return half;
  }

  static uint16_t Encode(float value) {
    uint32_t x = std::bit_cast<uint32_t>(value);
    uint32_t sign = (x >> 16) & 0x8000;
    x &= 0x7fffffff;
    if (x > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);   // NaN
    if (x >= 0x47800000) return static_cast<uint16_t>(sign | 0x7c00);  // overflow
    if (x < 0x38800000) {  // subnormal: let the float adder round at the right bit
      float magnitude = std::bit_cast<float>(x) + 0.5f;
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(magnitude) - 0x3f000000));
    }
    uint32_t odd = (x >> 13) & 1;
    return static_cast<uint16_t>(sign | ((x - 0x38000000 + 0xfff + odd) >> 13));
  }

  static float Decode(uint16_t bits) {
    uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    uint32_t exponent = (bits >> 10) & 31;
    uint32_t mantissa = bits & 0x3ff;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
    if (exponent == 0) {
      float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
      return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
};

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  BFloat16(float value) : bits(Encode(value)) {}  // NOLINT: implicit like a number
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

  static BFloat16 FromBits(uint16_t bits) {
    BFloat16 result;
    result.bits = bits;
    return result;
  }

  static uint16_t Encode(float value) {
    uint32_t x = std::bit_cast<uint32_t>(value);
    if ((x & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((x >> 16) | 0x40);  // NaN
    return static_cast<uint16_t>((x + 0x7fff + ((x >> 16) & 1)) >> 16);
  }
};

}  // namespace hammock
