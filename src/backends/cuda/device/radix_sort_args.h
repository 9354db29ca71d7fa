#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

inline constexpr int kRadixThreads = 256;
inline constexpr int kMostDigitBits = 8;  ///< a thread for each value of a digit

/// Of all kernels of a radix sort; the arguments of the items follow. "Of a row": each row has
/// some.
template <class Key, class Load, class State>
struct RadixArgs {
  int64_t extent;     ///< items of a row
  int64_t tiles;      ///< of a row, for the blocks that move
  int64_t parts;      ///< of a row, for the blocks that count
  int64_t part_size;  ///< items of a part
  Key* keys[2];       ///< buffers between passes
  Load* loads[2];
  uint32_t* counts;   ///< of a row: by pass and digit, later where each value of a digit begins
  uint32_t* plan;     ///< of a row, by pass: 0 or 1, 2 if it is the last, 4 for each before it
  uint64_t* range;    ///< of a row: the complement of the smallest key, and the largest
  uint32_t* tickets;  ///< of all passes, and 8 words on whether any row needs a pass
  State* states[2];   ///< of tiles, by digit, for passes of even and odd number
  int64_t pass, passes;
  int64_t digit_bits;
};

}  // namespace hammock::cuda
