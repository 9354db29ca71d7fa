#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

inline constexpr int kScanEach = 8;                ///< elements of a thread
inline constexpr int kScanTile = 256 * kScanEach;  ///< elements of a block
inline constexpr int kScanNeighbours = 32;         ///< adjacent lines of a block

/// A block for each tile of a line, for several short lines, or for adjacent lines.
template <class From, class To>
struct ScanArgs {
  const From* from;
  To* to;
  int64_t extent;  ///< elements of a line
  int64_t inner;   ///< the stride of elements
  int64_t lines;
};

/// Several blocks for each line.
template <class From, class To>
struct LongScanArgs {
  const From* from;
  To* to;
  int64_t extent, inner;
  int64_t tiles;          ///< of a line
  uint32_t* ticket;       ///< which numbers the tiles
  uint64_t* tile_totals;  ///< two words each
  uint64_t* group_totals;
};

}  // namespace hammock::cuda
