#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// Items that a block of 256 threads sorts.
inline constexpr int kSortTile = 2048;

/// How the bits of elements are ordered.
enum class KeyKind { kUnsigned, kSigned, kBool, kFloat };

/// Of kernels that sort tiles of rows, or several short rows in one tile, or pick the first few of
/// parts of rows. They read elements or items of an earlier kernel, and write items, or values and
/// positions.
template <class Element, class Item>
struct SortArgs {
  const Element* elements = nullptr;
  const Item* items = nullptr;
  Element* values = nullptr;
  int64_t* positions = nullptr;
  Item* sorted = nullptr;
  int64_t extent;        ///< items of a row
  int64_t row_elements;  ///< of the row whose elements they are
  int64_t inner;         ///< the stride of elements
  int64_t rows;
  int64_t kept;           ///< of a row, or of a tile where items are written
  int64_t tiles;          ///< or parts, of a row
  int64_t part_size = 0;  ///< items of a part
};

/// Merges pairs of runs of `width` items, all of rows of `row` items; a block makes a tile of them.
template <class Item>
struct MergeArgs {
  const Item* from;
  Item* to;
  int64_t width, row;
};

/// Values and positions of sorted items: one thread for each result.
template <class Element, class Item>
struct FinishSortArgs {
  int64_t count;
  const Element* elements;
  Element* values;
  int64_t* positions;
  const Item* items;
  int64_t extent, inner, kept;
  int64_t row;  ///< items of a row
};

/// Elements that are sorted by their digits, with their positions.
template <class Element>
struct RadixElementArgs {
  const Element* elements;
  Element* values;
  int64_t* positions;
  int64_t kept, inner;
};

/// Positions of elements that are not 0.
template <class Element>
struct NonzeroArgs {
  const Element* elements;
  int64_t* positions;
  uint32_t* counts;  ///< of tiles, then offsets; the last one is the total
  int64_t limit;     ///< of positions
  int64_t tiles;
  int64_t numel;
};
template <class Element, int kRank>
struct NonzeroSizeArgs : NonzeroArgs<Element> {
  int64_t sizes[kRank];
};

}  // namespace hammock::cuda
