#pragma once
/// Sorting of items, a key and a position each, by merging: the text of kernels.
/// Note [Sorting on a GPU]. A block sorts a tile of 2,048 items: eight by each thread, then runs of
/// eight, sixteen and so on are merged in shared memory, where each thread finds by bisection which
/// eight items of the result are its own. Longer runs are merged in the same way, a block for each
/// 2,048 items of the result. No two items are equal, so there is one result.

#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/calls/call_kit.h"

namespace hammock::cuda {

inline constexpr int64_t kSortTile = 2048;

/// The type `Item`, one word if key and position have 32 bits each, and its functions.
std::string ItemText(bool packed);

/// Variants of the tile kernel.
struct SortTileKind {
  int64_t width = kSortTile;  ///< a row's part of a tile, a power of two
  bool strided = false;       ///< the elements of a row are not contiguous
  bool from_items = false;    ///< reads items of an earlier kernel, else elements
  bool writes_items = true;   ///< else it writes values and positions
};

/// Sorts parts of rows, or several short rows in one tile. Arguments: blocks, elements,
/// results or items, positions, items of a row, stride, rows, kept of a row, tiles of a row, items
/// that are read, elements of a row.
std::string SortTileText(const SortTileKind& kind, std::string_view element);

/// The first few items of rows, or of parts of them, a block each: items that precede the last of
/// the first few so far are collected, and sorted when there are many. At most 1,024 are kept.
/// Arguments: as SortTileText, but parts for tiles, and the items of a part.
std::string PickText(const SortTileKind& kind, std::string_view element);

/// Merges pairs of runs of w4 items, all of rows of w5 items; a block makes a tile of them.
std::string MergeItemsText();

/// The number of items from which RadixSorter is faster.
inline constexpr int64_t kManyItems = 1 << 15;

/// Sorts `count` items of one word, a target and a position each.
class ItemSorter {
 public:
  explicit ItemSorter(int64_t count);
  std::vector<KernelSource> Sources() const;
  size_t kernels() const { return tiles_ > 1 ? 2 : 1; }
  /// The scratch memory begins with the items.
  int64_t scratch_bytes() const { return 2 * bytes_; }
  /// Returns the address of the sorted items, in the scratch memory. `functions` are those of
  /// Sources.
  Address Run(Machine& machine, std::span<const Function* const> functions, Address scratch) const;

 private:
  int64_t count_;
  int64_t tiles_;
  int64_t bytes_;
};

}  // namespace hammock::cuda
