#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace hammock {

/// A 128-bit hash: fast, unseeded, the same on every machine and in every run. Not cryptographic; a
/// lookup by it is confirmed by comparing what was hashed.
///   Hash128 h = HashOf(op_id);
///   for (int64_t dim : dims) h = Combine(h, dim);       // order matters
struct Hash128 {
  uint64_t lo = 0;
  uint64_t hi = 0;

  friend constexpr bool operator==(const Hash128&, const Hash128&) = default;
  friend constexpr auto operator<=>(const Hash128&, const Hash128&) = default;
};

namespace hash_detail {

__extension__ using Uint128 = unsigned __int128;

inline constexpr uint64_t kMulLo = 0x9e3779b97f4a7c15;  // odd, about half of the bits set
inline constexpr uint64_t kMulHi = 0xd1b54a32d192ed03;
inline constexpr Hash128 kStart = {0x243f6a8885a308d3, 0x13198a2e03707344};

/// Up to 8 bytes, little-endian, the rest zero.
constexpr uint64_t Load(const char* bytes, size_t count) {
  uint64_t word = 0;
  if (!std::is_constant_evaluated() && std::endian::native == std::endian::little) {
    std::memcpy(&word, bytes, count);
    return word;
  }
  for (size_t i = 0; i < count; ++i) {
    word |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return word;
}

}  // namespace hash_detail

/// The hash of a sequence that hashed to `hash`, followed by `value`.
constexpr Hash128 Combine(Hash128 hash, uint64_t value) {
  using namespace hash_detail;
  // Two independent multiplications; each result takes the well-mixed high half of one and the low
  // half of the other, which is a bijection of its input.
  Uint128 a = static_cast<Uint128>(hash.lo ^ value) * kMulLo;
  Uint128 b = static_cast<Uint128>(hash.hi ^ std::rotl(value, 32)) * kMulHi;
  auto high = [](Uint128 x) { return static_cast<uint64_t>(x >> 64); };
  return {(high(a) + static_cast<uint64_t>(b)) ^ std::rotl(hash.hi, 23),
          (high(b) + static_cast<uint64_t>(a)) ^ std::rotl(hash.lo, 41)};
}

constexpr Hash128 Combine(Hash128 hash, Hash128 other) {
  return Combine(Combine(hash, other.lo), other.hi);
}

constexpr Hash128 HashOf(uint64_t value) {
  return Combine(Combine(hash_detail::kStart, value), hash_detail::kMulHi);
}

/// The hash of a string's bytes and length; usable in constant expressions.
constexpr Hash128 HashString(std::string_view text) {
  Hash128 hash = Combine(hash_detail::kStart, text.size());
  while (text.size() >= 8) {
    hash = Combine(hash, hash_detail::Load(text.data(), 8));
    text.remove_prefix(8);
  }
  if (!text.empty()) hash = Combine(hash, hash_detail::Load(text.data(), text.size()));
  return Combine(hash, hash_detail::kMulLo);
}

inline Hash128 HashBytes(const void* data, size_t size) {
  return HashString({static_cast<const char*>(data), size});
}

/// 32 hexadecimal digits, high half first.
inline std::string ToString(Hash128 hash) {
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = "0123456789abcdef"[(hash.hi >> (4 * i)) & 15];
    text[31 - i] = "0123456789abcdef"[(hash.lo >> (4 * i)) & 15];
  }
  return text;
}

}  // namespace hammock

template <>
struct std::hash<hammock::Hash128> {
  size_t operator()(const hammock::Hash128& hash) const noexcept { return hash.lo; }
};
