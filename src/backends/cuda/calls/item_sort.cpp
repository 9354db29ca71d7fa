#include "backends/cuda/calls/item_sort.h"

#include <fmt/format.h>

namespace hammock::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 8;  // items of a thread
static_assert(kThreads * kEach == kSortTile);

/// Division by a stride of one costs nothing if it is known to be one.
std::string TileArguments(bool strided) {
  return fmt::format(
      "  const long long extent = (long long)w4, inner = {}, rows = (long long)w6;\n"
      "  const long long kept = (long long)w7, tiles = (long long)w8;\n",
      strided ? "(long long)w5" : "1");
}

/// Lines that say which row of the tile, and where in it, `i` is.
std::string PositionInTile(int64_t width, bool rows_first) {
  return rows_first ? fmt::format("    const int r = i % {0}, k = i / {0};\n", kSortTile / width)
                    : fmt::format("    const int r = i / {0}, k = i % {0};\n", width);
}

/// Neighbours in memory are loaded by neighbouring threads.
std::string LoadItems(const SortTileKind& kind) {
  std::string body = fmt::format("  for (int i = t; i < {}; i += {}) {{\n", kSortTile, kThreads);
  body += PositionInTile(kind.width, kind.strided && !kind.from_items);
  body += fmt::format(
      "    const long long row = block / tiles * {} + r, at = block % tiles * {} + k;\n"
      "    Item item = last_item();\n    if (row < rows && at < extent) {{\n",
      kSortTile / kind.width, kSortTile);
  body += kind.from_items
              ? "      item = ((const Item*)w9)[row * extent + at];\n"
              : "      item = make_item(order_key(((const E*)w1)[(row / inner * extent + at) * "
                "inner + row % inner]), at);\n";
  return body +
         fmt::format("    }}\n    items[place_of(r * {} + k)] = item;\n  }}\n  __syncthreads();\n",
                     kind.width);
}

/// Eight items of each thread in registers, then runs of them.
std::string SortItems(int64_t width) {
  std::string body = R"(  Item mine[8];
  for (int k = 0; k < 8; ++k) mine[k] = items[place_of(8 * t + k)];
#pragma unroll
  for (int round = 0; round < 8; ++round) {
#pragma unroll
    for (int k = round % 2; k < 7; k += 2) {
)";
  if (width < kEach) body += fmt::format("      if ((k + 1) % {} == 0) continue;\n", width);
  body += R"(      const Item x = mine[k], y = mine[k + 1];
      const bool swaps = before(y, x);
      mine[k] = swaps ? y : x;
      mine[k + 1] = swaps ? x : y;
    }
  }
)";
  body += fmt::format("  for (int width = 8; width < {}; width *= 2) {{\n", width);
  return body + R"(    __syncthreads();
    for (int k = 0; k < 8; ++k) items[place_of(8 * t + k)] = mine[k];
    __syncthreads();
    const SharedItems runs = {items, 8 * t / (2 * width) * (2 * width)};
    merge_eight(runs, 8 * t - runs.first, width, width, mine);
  }
  __syncthreads();
  for (int k = 0; k < 8; ++k) items[place_of(8 * t + k)] = mine[k];
  __syncthreads();
)";
}

std::string WriteItems() {
  return fmt::format(
      "  for (int k = t; k < kept; k += {}) ((Item*)w2)[block * kept + k] = items[place_of(k)];\n",
      kThreads);
}

std::string WriteResults(const SortTileKind& kind) {
  return fmt::format("  for (int i = t; i < {}; i += {}) {{\n", kSortTile, kThreads) +
         PositionInTile(kind.width, kind.strided) +
         fmt::format(
             "    const long long row = block / tiles * {} + r;\n"
             "    if (row >= rows || k >= kept) continue;\n"
             "    const Item item = items[place_of(r * {} + k)];\n",
             kSortTile / kind.width, kind.width) +
         R"(    const long long line = row / inner, column = row % inner, from = position_of(item);
    const long long to = (line * kept + k) * inner + column;
    ((E*)w2)[to] = ((const E*)w1)[(line * (long long)w10 + from) * inner + column];
    ((long long*)w3)[to] = from;
  }
)";
}

}  // namespace

std::string ItemText(bool packed) {
  std::string type = packed ? R"(
typedef unsigned long long Item;
__device__ inline Item make_item(unsigned long long key, long long position) {
  return key << 32 | (unsigned long long)position;
}
__device__ inline Item last_item() { return ~0ull; }
__device__ inline long long position_of(Item x) { return (long long)(x & 0xffffffffull); }
__device__ inline bool before(Item x, Item y) { return x < y; }
)"
                            : R"(
struct Item { unsigned long long key, position; };
__device__ inline Item make_item(unsigned long long key, long long position) {
  Item item = {key, (unsigned long long)position};
  return item;
}
__device__ inline Item last_item() { Item item = {~0ull, ~0ull}; return item; }
__device__ inline long long position_of(Item x) { return (long long)x.position; }
__device__ inline bool before(Item x, Item y) {
  return x.key != y.key ? x.key < y.key : x.position < y.position;
}
)";
  // Threads have neighbouring items, so some places are left out to use all banks.
  return type + R"(
__device__ inline int place_of(int i) { return i + i / 8; }
// The number of items of `a` among the first `diagonal` of two sorted runs.
template <class Int, class At>
__device__ inline Int split_runs(Int diagonal, Int a_size, Int b_size, At at) {
  Int low = diagonal > b_size ? diagonal - b_size : 0, high = diagonal < a_size ? diagonal : a_size;
  while (low < high) {
    const Int middle = (low + high) / 2;
    if (before(at(a_size + diagonal - 1 - middle), at(middle))) high = middle;
    else low = middle + 1;
  }
  return low;
}
struct SharedItems {
  const Item* items;
  int first;
  __device__ Item operator()(int i) const { return items[place_of(first + i)]; }
};
struct GlobalItems {
  const Item* items;
  __device__ Item operator()(long long i) const { return items[i]; }
};
// Eight items of two sorted runs that lie one after another, from the `diagonal`th on.
__device__ inline void merge_eight(const SharedItems& at, int diagonal, int a_size, int b_size,
                                   Item* out) {
  int i = split_runs(diagonal, a_size, b_size, at), j = diagonal - i;
  for (int k = 0; k < 8; ++k) {
    const bool first = j >= b_size || (i < a_size && !before(at(a_size + j), at(i)));
    out[k] = first ? at(i) : at(a_size + j);
    if (first) ++i; else ++j;
  }
}
)";
}

std::string SortTileText(const SortTileKind& kind, std::string_view element) {
  std::string body = TileArguments(kind.strided);
  body += fmt::format("  typedef {} E;\n  const int t = threadIdx.x;\n", element);
  body += fmt::format("  __shared__ Item items[{}];\n", kSortTile + kSortTile / 8);
  body += LoadItems(kind) + SortItems(kind.width);
  return body + (kind.writes_items ? WriteItems() : WriteResults(kind));
}

std::string PickText(const SortTileKind& kind, std::string_view element) {
  std::string body = TileArguments(kind.strided);
  body +=
      fmt::format("  typedef {} E;\n  typedef {} Read;\n", element, kind.from_items ? "Item" : "E");
  body += fmt::format("  __shared__ Item items[{}];\n", kSortTile + kSortTile / 8);
  body += R"(  __shared__ unsigned have;
  const int t = threadIdx.x;
  const long long row = block / tiles, begin = block % tiles * (long long)w11;
  const long long end = begin + (long long)w11 < extent ? begin + (long long)w11 : extent;
)";
  body += kind.from_items ? "  const Read* from = (const Read*)w9 + row * extent;\n"
                            "  const long long step = 1;\n"
                          : "  const Read* from = (const Read*)w1 + row / inner * extent * inner + "
                            "row % inner;\n  const long long step = inner;\n";
  // The next items are loaded before the last ones are compared.
  body += R"(  Read next[4] = {};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (begin + t + k * 256 < end) next[k] = from[(begin + t + k * 256) * step];
  }
  if (t == 0) have = 0;
  __syncthreads();
  Item bound = last_item();
  bool bounded = false;
  for (long long first = begin;; first += 1024) {
    Item seen[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const long long at = first + t + k * 256;
)";
  body += fmt::format("      seen[k] = at < end ? {} : last_item();\n",
                      kind.from_items ? "next[k]" : "make_item(order_key(next[k]), at)");
  body += R"(      if (at + 1024 < end) next[k] = from[(at + 1024) * step];
    }
    if (bounded) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (before(seen[k], bound)) items[place_of((int)atomicAdd(&have, 1u))] = seen[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) items[place_of((int)have + t + k * 256)] = seen[k];
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
    for (int i = had + t; i < 2048; i += 256) items[place_of(i)] = last_item();
    __syncthreads();
)";
  body += SortItems(kSortTile);
  body += R"(    if (last) break;
    bound = items[place_of((int)kept - 1)];
    bounded = true;
    if (t == 0) have = (unsigned)kept;
    __syncthreads();
  }
)";
  return body + (kind.writes_items ? WriteItems() : WriteResults(kind));
}

std::string MergeItemsText() {
  return fmt::format(R"(
  const int t = threadIdx.x;
  const long long width = (long long)w4, row = (long long)w5;
  const long long begin = block * {0}, in_row = begin % row, pair = in_row / (2 * width) * (2 * width);
  const long long left = row - pair;
  const long long a_size = left < width ? left : width;
  const long long b_size = left - a_size < width ? left - a_size : width;
  const Item* from = (const Item*)w1 + (begin - in_row) + pair;
  __shared__ Item items[{1}];
  __shared__ long long splits[2];
  const GlobalItems runs = {{from}};
  if (t < 2) splits[t] = split_runs(in_row - pair + t * {0}ll, a_size, b_size, runs);
  __syncthreads();
  const long long a_first = splits[0], b_first = in_row - pair - a_first;
  const int a_count = (int)(splits[1] - a_first), b_count = {0} - a_count;
  for (int i = t; i < {0}; i += {2}) {{
    items[place_of(i)] = i < a_count ? from[a_first + i] : from[a_size + b_first + (i - a_count)];
  }}
  __syncthreads();
  Item mine[8];
  const SharedItems both = {{items, 0}};
  merge_eight(both, 8 * t, a_count, b_count, mine);
  __syncthreads();
  for (int k = 0; k < 8; ++k) items[place_of(8 * t + k)] = mine[k];
  __syncthreads();
  for (int i = t; i < {0}; i += {2}) ((Item*)w2)[begin + i] = items[place_of(i)];
)",
                     kSortTile, kSortTile + kSortTile / 8, kThreads);
}

ItemSorter::ItemSorter(int64_t count)
    : count_(count), tiles_(CeilDiv(count, kSortTile)), bytes_(tiles_ * kSortTile * 8) {}

std::vector<KernelSource> ItemSorter::Sources() const {
  std::string functions = ItemText(/*packed=*/true);
  std::vector<KernelSource> sources = {
      BlockKernel(12, functions, SortTileText({.from_items = true}, "unsigned char"))};
  if (tiles_ > 1) sources.push_back(BlockKernel(6, functions, MergeItemsText()));
  return sources;
}

Address ItemSorter::Run(Machine& machine, std::span<const Function* const> functions,
                        Address scratch) const {
  Address from = scratch, to = scratch + static_cast<Address>(bytes_);
  machine.Launch(
      *functions[0], BlockGrid(tiles_),
      std::vector<uint64_t>{Argument(tiles_), 0, to, 0, Argument(count_), 1, 1, Argument(kSortTile),
                            Argument(tiles_), from, Argument(count_), 0});
  int64_t row = tiles_ * kSortTile;
  for (int64_t width = kSortTile; width < row; width *= 2) {
    std::swap(from, to);
    machine.Launch(
        *functions[1], BlockGrid(tiles_),
        std::vector<uint64_t>{Argument(tiles_), from, to, 0, Argument(width), Argument(row)});
  }
  return to;
}

}  // namespace hammock::cuda
