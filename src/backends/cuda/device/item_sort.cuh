#pragma once
// The kernels of Note [Sorting on a GPU].

#include "backends/cuda/device/sort_key.cuh"

namespace hammock::cuda {

// A key and a position of 32 bits each. A plain integer: NVRTC would load the members of a struct
// again where it chooses between two.
using PackedItem = uint64_t;

struct WideItem {
  uint64_t key, position;
};

template <class Item>
__device__ Item make_item(uint64_t key, int64_t position);
template <>
__device__ inline PackedItem make_item<PackedItem>(uint64_t key, int64_t position) {
  return key << 32 | (uint64_t)position;
}
template <>
__device__ inline WideItem make_item<WideItem>(uint64_t key, int64_t position) {
  return {key, (uint64_t)position};
}

template <class Item>
__device__ Item last_item();
template <>
__device__ inline PackedItem last_item<PackedItem>() {
  return ~0ull;
}
template <>
__device__ inline WideItem last_item<WideItem>() {
  return {~0ull, ~0ull};
}

__device__ inline int64_t position_of(PackedItem x) { return (int64_t)(x & 0xffffffffull); }
__device__ inline int64_t position_of(const WideItem& x) { return (int64_t)x.position; }

__device__ inline bool before(PackedItem x, PackedItem y) { return x < y; }
__device__ inline bool before(const WideItem& x, const WideItem& y) {
  return x.key != y.key ? x.key < y.key : x.position < y.position;
}

inline constexpr int kSharedItems = kSortTile + kSortTile / 8;

// The number of items of `a` among the first `diagonal` of two sorted runs.
template <class Int, class Run>
__device__ inline Int split_runs(Int diagonal, Int a_size, Int b_size, Run at) {
  Int low = diagonal > b_size ? diagonal - b_size : 0, high = diagonal < a_size ? diagonal : a_size;
  while (low < high) {
    const Int middle = (low + high) / 2;
    if (before(at(a_size + diagonal - 1 - middle), at(middle))) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}
template <class Item>
struct SharedItems {
  const Item* items;
  int first;
  __device__ Item operator()(int i) const { return items[index_of(first + i)]; }
};
template <class Item>
struct GlobalItems {
  const Item* items;
  __device__ Item operator()(int64_t i) const { return items[i]; }
};
// Eight items of two sorted runs that lie one after another, from the `diagonal`th on.
template <class Item>
__device__ inline void merge_eight(const SharedItems<Item>& at, int diagonal, int a_size,
                                   int b_size, Item* out) {
  int i = split_runs(diagonal, a_size, b_size, at), j = diagonal - i;
  for (int k = 0; k < 8; ++k) {
    const bool first = j >= b_size || (i < a_size && !before(at(a_size + j), at(i)));
    out[k] = first ? at(i) : at(a_size + j);
    if (first) {
      ++i;
    } else {
      ++j;
    }
  }
}

// Which row of a tile, and where in it, something is. kWidth: a row's part of the tile.
template <int kWidth, bool kRowsFirst>
struct TilePosition {
  static constexpr int kRows = kSortTile / kWidth;
  explicit __device__ TilePosition(int i)
      : row(kRowsFirst ? i % kRows : i / kWidth), at(kRowsFirst ? i / kRows : i % kWidth) {}
  int row, at;
};

// Sorts rows of kWidth items in shared memory: eight items of each thread in registers, then runs.
template <int kWidth, class Item>
__device__ __forceinline__ void sort_items(Item* items) {
  const int t = threadIdx.x;
  Item mine[8];
  for (int k = 0; k < 8; ++k) mine[k] = items[index_of(8 * t + k)];
#pragma unroll
  for (int pass = 0; pass < 8; ++pass) {
#pragma unroll
    for (int k = pass % 2; k < 7; k += 2) {
      if (kWidth < 8 && (k + 1) % kWidth == 0) continue;
      const Item x = mine[k], y = mine[k + 1];
      const bool swaps = before(y, x);
      mine[k] = swaps ? y : x;
      mine[k + 1] = swaps ? x : y;
    }
  }
  for (int width = 8; width < kWidth; width *= 2) {
    __syncthreads();
    for (int k = 0; k < 8; ++k) items[index_of(8 * t + k)] = mine[k];
    __syncthreads();
    const SharedItems<Item> runs = {items, 8 * t / (2 * width) * (2 * width)};
    merge_eight(runs, 8 * t - runs.first, width, width, mine);
  }
  __syncthreads();
  for (int k = 0; k < 8; ++k) items[index_of(8 * t + k)] = mine[k];
  __syncthreads();
}

// Writes the sorted items of a tile, or the values and positions that they stand for.
template <int kWidth, bool kStrided, bool kWritesItems, class Element, class Item>
__device__ __forceinline__ void write_tile(const SortArgs<Element, Item>& args, const Item* items) {
  const int t = threadIdx.x;
  const int64_t block = blockIdx.x, kept = args.kept, inner = kStrided ? args.inner : 1;
  if constexpr (kWritesItems) {
    for (int k = t; k < kept; k += 256) args.sorted[block * kept + k] = items[index_of(k)];
  } else {
    for (int i = t; i < kSortTile; i += 256) {
      const TilePosition<kWidth, kStrided> in(i);
      const int64_t row = block / args.tiles * (kSortTile / kWidth) + in.row;
      if (row >= args.rows || in.at >= kept) continue;
      const Item item = items[index_of(in.row * kWidth + in.at)];
      const int64_t line = row / inner, column = row % inner, from = position_of(item);
      const int64_t to = (line * kept + in.at) * inner + column;
      args.values[to] = args.elements[(line * args.row_elements + from) * inner + column];
      args.positions[to] = from;
    }
  }
}

// A block for each tile. Neighbours in memory are loaded by neighbouring threads.
template <class Key, class Item, int kWidth, bool kStrided, bool kFromItems, bool kWritesItems>
__device__ __forceinline__ void sort_tile(const SortArgs<typename Key::Element, Item>& args) {
  const int64_t block = blockIdx.x, extent = args.extent, inner = kStrided ? args.inner : 1;
  __shared__ Item items[kSharedItems];
  for (int i = threadIdx.x; i < kSortTile; i += 256) {
    const TilePosition<kWidth, kStrided && !kFromItems> in(i);
    const int64_t row = block / args.tiles * (kSortTile / kWidth) + in.row;
    const int64_t at = block % args.tiles * kSortTile + in.at;
    Item item = last_item<Item>();
    if (row < args.rows && at < extent) {
      if constexpr (kFromItems) {
        item = args.items[row * extent + at];
      } else {
        item = make_item<Item>(
            Key::order(args.elements[(row / inner * extent + at) * inner + row % inner]), at);
      }
    }
    items[index_of(in.row * kWidth + in.at)] = item;
  }
  __syncthreads();
  sort_items<kWidth>(items);
  write_tile<kWidth, kStrided, kWritesItems>(args, items);
}

// The first few items of rows, or of parts of them, a block each: items that precede the last of
// the first few so far are collected, and sorted when there are many. At most 1,024 are kept.
template <class Key, class Item, bool kStrided, bool kFromItems, bool kWritesItems>
__device__ __forceinline__ void pick_items(const SortArgs<typename Key::Element, Item>& args) {
  using Read = typename Either<kFromItems, Item, typename Key::Element>::Type;
  __shared__ Item items[kSharedItems];
  __shared__ unsigned have;
  const int t = threadIdx.x;
  const int64_t block = blockIdx.x, extent = args.extent, inner = kStrided ? args.inner : 1;
  const int64_t row = block / args.tiles, begin = block % args.tiles * args.part_size;
  const int64_t end = begin + args.part_size < extent ? begin + args.part_size : extent;
  const int64_t step = kFromItems ? 1 : inner;
  const Read* from;
  if constexpr (kFromItems) {
    from = args.items + row * extent;
  } else {
    from = args.elements + row / inner * extent * inner + row % inner;
  }
  // The next items are loaded before the last ones are compared.
  Read next[4] = {};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (begin + t + k * 256 < end) next[k] = from[(begin + t + k * 256) * step];
  }
  if (t == 0) have = 0;
  __syncthreads();
  Item bound = last_item<Item>();
  bool bounded = false;
  for (int64_t first = begin;; first += 1024) {
    Item seen[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int64_t at = first + t + k * 256;
      if constexpr (kFromItems) {
        seen[k] = at < end ? next[k] : last_item<Item>();
      } else {
        seen[k] = at < end ? make_item<Item>(Key::order(next[k]), at) : last_item<Item>();
      }
      if (at + 1024 < end) next[k] = from[(at + 1024) * step];
    }
    if (bounded) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (before(seen[k], bound)) items[index_of((int)atomicAdd(&have, 1u))] = seen[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) items[index_of((int)have + t + k * 256)] = seen[k];
    }
    __syncthreads();
    const int had = (int)have + (bounded ? 0 : 1024);
    const bool last = first + 1024 >= end;
    __syncthreads();
    if (had <= 1024 && !last) {
      if (!bounded && t == 0) have = 1024;
      if (!bounded) __syncthreads();
      continue;
    }
    for (int i = had + t; i < kSortTile; i += 256) items[index_of(i)] = last_item<Item>();
    __syncthreads();
    sort_items<kSortTile>(items);
    if (last) break;
    bound = items[index_of((int)args.kept - 1)];
    bounded = true;
    if (t == 0) have = (unsigned)args.kept;
    __syncthreads();
  }
  write_tile<kSortTile, kStrided, kWritesItems>(args, items);
}

// A block makes a tile of two sorted runs.
template <class Item>
__device__ __forceinline__ void merge_items(const MergeArgs<Item>& args) {
  const int t = threadIdx.x;
  const int64_t width = args.width, row = args.row, begin = (int64_t)blockIdx.x * kSortTile;
  const int64_t in_row = begin % row, pair = in_row / (2 * width) * (2 * width);
  const int64_t left = row - pair;
  const int64_t a_size = left < width ? left : width;
  const int64_t b_size = left - a_size < width ? left - a_size : width;
  const Item* from = args.from + (begin - in_row) + pair;
  __shared__ Item items[kSharedItems];
  __shared__ int64_t splits[2];
  const GlobalItems<Item> runs = {from};
  if (t < 2) splits[t] = split_runs<int64_t>(in_row - pair + t * kSortTile, a_size, b_size, runs);
  __syncthreads();
  const int64_t a_first = splits[0], b_first = in_row - pair - a_first;
  const int a_count = (int)(splits[1] - a_first), b_count = kSortTile - a_count;
  for (int i = t; i < kSortTile; i += 256) {
    items[index_of(i)] = i < a_count ? from[a_first + i] : from[a_size + b_first + (i - a_count)];
  }
  __syncthreads();
  Item mine[8];
  const SharedItems<Item> both = {items, 0};
  merge_eight(both, 8 * t, a_count, b_count, mine);
  __syncthreads();
  for (int k = 0; k < 8; ++k) items[index_of(8 * t + k)] = mine[k];
  __syncthreads();
  for (int i = t; i < kSortTile; i += 256) args.to[begin + i] = items[index_of(i)];
}

template <class Element, class Item, bool kStrided>
__device__ __forceinline__ void finish_sort(const FinishSortArgs<Element, Item>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const int64_t inner = kStrided ? args.inner : 1, kept = args.kept;
  const int64_t column = i % inner, k = i / inner % kept, line = i / inner / kept;
  const Item item = args.items[(line * inner + column) * args.row + k];
  const int64_t from = position_of(item);
  args.values[i] = args.elements[(line * args.extent + from) * inner + column];
  args.positions[i] = from;
}

}  // namespace hammock::cuda
