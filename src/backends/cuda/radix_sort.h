#pragma once
/// Sorting of long rows of items of one word by the bytes of their keys, the lowest first.
/// Note [Radix sort]. The items of a row are shared out to some blocks. For each byte of the keys
/// the blocks count its values, the counts become places, and each block moves its items there,
/// tile by tile: a tile is first sorted by that byte in shared memory, so that equal ones go side
/// by side. Items with equal bytes keep their order.

#include <vector>

#include "backends/cuda/call_kit.h"

namespace hammock::cuda {

class RadixSorter {
 public:
  /// Rows of `extent` items, each a key of `key_bytes` bytes above 32 bits of anything.
  RadixSorter(int64_t rows, int64_t extent, int key_bytes);

  std::vector<KernelSource> Sources() const;
  static constexpr size_t kFunctions = 3;
  /// The items lie at its begin.
  int64_t scratch_bytes() const { return 2 * items_bytes_ + counts_bytes_ + totals_bytes_; }
  /// Where the sorted items are, in the scratch memory.
  Address Run(Machine& machine, std::span<const Function* const> functions, Address scratch) const;

 private:
  int64_t rows_, extent_;
  int key_bytes_;
  int64_t blocks_;  // of a row
  int64_t share_;   // items of a block
  int64_t items_bytes_, counts_bytes_, totals_bytes_;
};

}  // namespace hammock::cuda
