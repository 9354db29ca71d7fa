#pragma once
/// Sorting of items, a key and a position each, by merging.
/// Note [Sorting on a GPU]. A block sorts a tile of 2,048 items: eight by each thread, then runs of
/// eight, sixteen and so on are merged in shared memory, where each thread finds by bisection which
/// eight items of the result are its own. Longer runs are merged in the same way, a block for each
/// 2,048 items of the result. No two items are equal, so there is one result.

#include <string>
#include <vector>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/device/sort_args.h"

namespace hammock::cuda {

/// The type of items: one word if key and position have 32 bits each.
inline const char* ItemType(bool packed) { return packed ? "PackedItem" : "WideItem"; }

/// Variants of the kernels that sort tiles and pick items.
struct SortTileKind {
  std::string key = {};       ///< the type of keys, a SortKey
  bool packed = true;         ///< items
  int64_t width = kSortTile;  ///< a row's part of a tile, a power of two
  bool strided = false;       ///< the elements of a row are not contiguous
  bool from_items = false;    ///< reads items of an earlier kernel, else elements
  bool writes_items = true;   ///< else it writes values and positions
};

/// Sorts parts of rows, or several short rows in one tile. Arguments: SortArgs.
KernelSource SortTileSource(const SortTileKind& kind);
/// Picks the first few of rows, at most 1,024. Arguments: SortArgs.
KernelSource PickSource(const SortTileKind& kind);
/// Merges runs. Arguments: MergeArgs.
KernelSource MergeSource(bool packed);

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
