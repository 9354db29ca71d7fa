#pragma once
/// Size classes of caching allocators: 0 to 7 are the multiples of 64 up to 512 bytes, then eight
/// for each doubling, so that a block wastes less than an eighth of its bytes.

#include <algorithm>
#include <bit>
#include <cstdint>

namespace hammock {

constexpr int64_t kBlockAlignment = 64;
constexpr int kSizeClassesPerDoubling = 8;
constexpr int kSizeClasses = 416;  // up to 2^60 bytes

/// The class that serves a request.
inline int SizeClassOf(int64_t bytes) {
  const uint64_t units =
      static_cast<uint64_t>(std::max<int64_t>(bytes, 1) + kBlockAlignment - 1) / kBlockAlignment;
  if (units <= kSizeClassesPerDoubling) return static_cast<int>(units) - 1;
  // units - 1 has its highest bit in [2^shift * 8, 2^shift * 16).
  const int shift = std::bit_width(units - 1) - 4;
  return static_cast<int>(((units - 1) >> shift) - kSizeClassesPerDoubling) +
         kSizeClassesPerDoubling * (shift + 1);
}

/// The bytes of a block of a class.
inline int64_t BytesOfClass(int size_class) {
  if (size_class < kSizeClassesPerDoubling) return (size_class + 1) * kBlockAlignment;
  const int shift = size_class / kSizeClassesPerDoubling - 1;
  return (int64_t{size_class % kSizeClassesPerDoubling + kSizeClassesPerDoubling + 1} << shift) *
         kBlockAlignment;
}

/// The bytes of the block that serves a request.
inline int64_t BlockSize(int64_t bytes) { return BytesOfClass(SizeClassOf(bytes)); }

}  // namespace hammock
