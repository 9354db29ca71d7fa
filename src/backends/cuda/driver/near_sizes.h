#pragma once
/// NearSize: sizes that share an algorithm. Libraries take long to choose one, and the same
/// algorithm is good for similar sizes.

#include <bit>
#include <cstdint>

namespace hammock::cuda {

/// The size that an algorithm for `size` is chosen for: the next one above with four leading bits,
/// so that the choice depends on the size alone, not on sizes seen before.
inline int64_t NearSize(int64_t size) {
  if (size <= 16) return size;
  const int64_t unit = int64_t{1} << (std::bit_width(static_cast<uint64_t>(size - 1)) - 4);
  return (size + unit - 1) / unit * unit;
}

}  // namespace hammock::cuda
