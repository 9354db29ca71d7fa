// Sorting and the k first. Elements become integers that are ordered as they are, with their
// positions, so no two are equal and any order of merging gives the one result.
#include <fmt/format.h>

#include <bit>

#include "backends/cuda/call_kit.h"
#include "ops/primitives.h"

namespace hammock::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 8;  // items of a thread
constexpr int64_t kTile = kThreads * kEach;
constexpr int64_t kMostPicked = 256;  // from each tile, to be better than sorting all

/// `order_key`: an integer that is ordered as the elements are: -0 equals 0 and NaN is the largest.
std::string KeyText(DType dtype, bool descending) {
  int bits = InfoOf(dtype).bits;
  std::string_view type = BytesType(bits / 8);
  uint64_t all = ~uint64_t{0} >> (64 - bits), sign = all / 2 + 1;
  std::string text = fmt::format("__device__ inline unsigned long long order_key({} x) {{\n", type);
  text += fmt::format("  unsigned long long key = x;\n");
  if (dtype == DType::kBool) {
    text += "  key = key != 0;\n";
  } else if (IsFloat(dtype)) {
    uint64_t infinity = dtype == DType::kF64    ? 0x7ff0000000000000
                        : dtype == DType::kF32  ? 0x7f800000
                        : dtype == DType::kBF16 ? 0x7f80
                                                : 0x7c00;
    text += fmt::format(
        "  const unsigned long long size = key & {0}ull;\n"
        "  if (size == 0) key = 0;\n"
        "  key = key & {1}ull ? ~key & {2}ull : key | {1}ull;\n"
        "  if (size > {3}ull) key = {2}ull;\n",
        sign - 1, sign, all, infinity);
  } else if (InfoOf(dtype).kind == DTypeKind::kSigned) {
    text += fmt::format("  key ^= {}ull;\n", sign);
  }
  return text + fmt::format("  return {};\n}}\n",
                            descending ? fmt::format("~key & {}ull", all) : std::string("key"));
}

/// Items are one word where key and position fit.
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
// How many of `a` are among the first `diagonal` of two sorted runs.
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

/// Words of a tile kernel.
constexpr const char* kTileWords = R"(
  const long long extent = (long long)w4, inner = (long long)w5, rows = (long long)w6;
  const long long kept = (long long)w7, tiles = (long long)w8;
)";

/// How a tile kernel is used.
struct TileKind {
  int64_t width = kTile;     ///< a row's part of a tile, a power of two
  bool strided = false;      ///< elements of a row do not lie side by side
  bool from_items = false;   ///< reads what another one wrote, else elements
  bool writes_items = true;  ///< else values and positions
};

/// Sorts parts of rows. Where a tile has several rows they are short.
std::string TileText(const TileKind& kind, std::string_view element) {
  int64_t rows = kTile / kind.width;
  std::string body = kTileWords;
  body += fmt::format("  typedef {} E;\n  const int t = threadIdx.x;\n", element);
  body += fmt::format("  __shared__ Item items[{}];\n", kTile + kTile / 8);
  // Which row of the tile and where in it `i` is; neighbours in memory go to neighbouring threads.
  std::string where = kind.strided && !kind.from_items
                          ? fmt::format("    const int r = i % {0}, k = i / {0};\n", rows)
                          : fmt::format("    const int r = i / {0}, k = i % {0};\n", kind.width);
  where += fmt::format(
      "    const long long row = block / tiles * {} + r, at = block % tiles * {} + k;\n", rows,
      kTile);
  body += fmt::format("  for (int i = t; i < {}; i += {}) {{\n{}", kTile, kThreads, where);
  body += "    Item item = last_item();\n    if (row < rows && at < extent) {\n";
  body += kind.from_items
              ? "      item = ((const Item*)w9)[row * extent + at];\n"
              : "      item = make_item(order_key(((const E*)w1)[(row / inner * extent + at) * "
                "inner + row % inner]), at);\n";
  body += fmt::format("    }}\n    items[place_of(r * {} + k)] = item;\n  }}\n", kind.width);
  body += R"(  __syncthreads();
  Item mine[8];
  for (int k = 0; k < 8; ++k) mine[k] = items[place_of(8 * t + k)];
#pragma unroll
  for (int round = 0; round < 8; ++round) {
#pragma unroll
    for (int k = round % 2; k < 7; k += 2) {
)";
  if (kind.width < kEach)
    body += fmt::format("      if ((k + 1) % {} == 0) continue;\n", kind.width);
  body += R"(      const Item x = mine[k], y = mine[k + 1];
      const bool swaps = before(y, x);
      mine[k] = swaps ? y : x;
      mine[k + 1] = swaps ? x : y;
    }
  }
)";
  body += fmt::format("  for (int width = 8; width < {}; width *= 2) {{\n", kind.width);
  body += R"(    __syncthreads();
    for (int k = 0; k < 8; ++k) items[place_of(8 * t + k)] = mine[k];
    __syncthreads();
    const SharedItems runs = {items, 8 * t / (2 * width) * (2 * width)};
    merge_eight(runs, 8 * t - runs.first, width, width, mine);
  }
  __syncthreads();
  for (int k = 0; k < 8; ++k) items[place_of(8 * t + k)] = mine[k];
  __syncthreads();
)";
  if (kind.writes_items) {
    return body + fmt::format(
                      "  for (int k = t; k < kept; k += {}) ((Item*)w2)[block * kept + k] = "
                      "items[place_of(k)];\n",
                      kThreads);
  }
  where = kind.strided ? fmt::format("    const int r = i % {0}, k = i / {0};\n", rows)
                       : fmt::format("    const int r = i / {0}, k = i % {0};\n", kind.width);
  where += fmt::format("    const long long row = block / tiles * {} + r;\n", rows);
  return body + fmt::format("  for (int i = t; i < {}; i += {}) {{\n{}", kTile, kThreads, where) +
         fmt::format(
             "    if (row >= rows || k >= kept) continue;\n"
             "    const Item item = items[place_of(r * {} + k)];\n",
             kind.width) +
         R"(    const long long line = row / inner, column = row % inner, from = position_of(item);
    const long long to = (line * kept + k) * inner + column;
    ((E*)w2)[to] = ((const E*)w1)[(line * (long long)w10 + from) * inner + column];
    ((long long*)w3)[to] = from;
  }
)";
}

/// Merges pairs of runs of w4 items, all of rows of w5 items; a block makes a tile of them.
std::string MergeText() {
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
                     kTile, kTile + kTile / 8, kThreads);
}

/// Values and positions of sorted items: one thread for each result.
std::string FinishText(std::string_view element) {
  return fmt::format("  typedef {} E;\n", element) + R"(
  const long long extent = (long long)w4, inner = (long long)w5, kept = (long long)w6;
  const long long column = i % inner, k = i / inner % kept, line = i / inner / kept;
  const Item item = ((const Item*)w7)[(line * inner + column) * (long long)w8 + k];
  const long long from = position_of(item);
  ((E*)w2)[i] = ((const E*)w1)[(line * extent + from) * inner + column];
  ((long long*)w3)[i] = from;
)";
}

/// The first `kept` of each row along a dim, in order. Short rows are sorted by one block, several
/// at once; of long ones tiles are sorted and then merged, or if few are kept, these are picked
/// from each tile until they fit into one.
class SortCall : public Call {
 public:
  SortCall(const Graph& graph, const GraphNode& node, int64_t dim, int64_t kept, bool descending)
      : dtype_(graph.TypeOf(node.inputs[0]).dtype()),
        axis_(graph.TypeOf(node.inputs[0]).sizes(), dim),
        kept_(kept < 0 ? axis_.extent : kept),
        descending_(descending),
        rows_(axis_.outer * axis_.inner),
        packed_(InfoOf(dtype_).bits <= 32 && axis_.extent < (int64_t{1} << 32) - 1) {
    int64_t tiles = CeilDiv(axis_.extent, kTile);
    if (axis_.extent <= kTile) return;
    merges_ = kept_ > kMostPicked;
    if (merges_) {
      row_ = tiles * kTile;
      scratch_ = 2 * ItemsBytes(rows_ * row_);
    } else {
      picked_ =
          static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(kept_, 1))));
      scratch_ = ItemsBytes(rows_ * tiles * picked_) +
                 ItemsBytes(rows_ * CeilDiv(tiles * picked_, kTile) * picked_);
    }
  }

  std::vector<KernelSource> Sources() const override {
    std::string functions = KeyText(dtype_, descending_) + ItemText(packed_);
    std::string_view element = BytesType(InfoOf(dtype_).bits / 8);
    auto tile = [&](TileKind kind) {
      kind.strided = axis_.inner > 1;
      return BlockKernel(11, functions, TileText(kind, element));
    };
    if (axis_.extent <= kTile) {
      auto width = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(axis_.extent, 2)));
      return {tile({.width = static_cast<int64_t>(width), .writes_items = false})};
    }
    std::vector<KernelSource> sources = {tile({})};
    if (merges_) {
      sources.push_back(BlockKernel(6, functions, MergeText()));
      sources.push_back(ElementKernel(9, functions, FinishText(element)));
    } else {
      sources.push_back(tile({.from_items = true}));
      sources.push_back(tile({.from_items = true, .writes_items = false}));
    }
    return sources;
  }
  int64_t scratch_bytes() const override { return scratch_; }

  void Run(Machine& machine, const Operands& operands) const override {
    if (rows_ == 0 || kept_ == 0) return;
    if (axis_.extent <= kTile) {
      auto width = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(axis_.extent, 2)));
      int64_t blocks = CeilDiv(rows_, kTile / static_cast<int64_t>(width));
      return RunTiles(machine, 0, operands, {.blocks = blocks, .extent = axis_.extent});
    }
    int64_t tiles = CeilDiv(axis_.extent, kTile);
    int64_t each = merges_ ? kTile : picked_;
    RunTiles(machine, 0, operands,
             {.blocks = rows_ * tiles,
              .extent = axis_.extent,
              .tiles = tiles,
              .kept = each,
              .to = operands.scratch});
    if (merges_) {
      Merge(machine, operands);
    } else {
      Pick(machine, operands, tiles * picked_);
    }
  }

 private:
  struct Tiles {
    int64_t blocks = 0, extent = 0, tiles = 1, kept = -1;
    Address from = 0, to = 0;
  };

  int64_t ItemsBytes(int64_t count) const { return (count * (packed_ ? 8 : 16) + 255) / 256 * 256; }

  void RunTiles(Machine& machine, size_t which, const Operands& operands, const Tiles& t) const {
    Address to = t.to ? t.to : operands.out[0];
    machine.Launch(function(which), BlockGrid(t.blocks),
                   std::vector<uint64_t>{WordOf(t.blocks), operands.in[0], to, operands.out[1],
                                         WordOf(t.extent), WordOf(axis_.inner), WordOf(rows_),
                                         WordOf(t.kept < 0 ? kept_ : t.kept), WordOf(t.tiles),
                                         t.from, WordOf(axis_.extent)});
  }

  void Merge(Machine& machine, const Operands& operands) const {
    Address from = operands.scratch, to = from + static_cast<Address>(scratch_ / 2);
    int64_t blocks = rows_ * (row_ / kTile);
    for (int64_t width = kTile; width < row_; width *= 2) {
      machine.Launch(
          function(1), BlockGrid(blocks),
          std::vector<uint64_t>{WordOf(blocks), from, to, 0, WordOf(width), WordOf(row_)});
      std::swap(from, to);
    }
    int64_t count = rows_ * kept_;
    machine.Launch(function(2), ElementGrid(count),
                   std::vector<uint64_t>{WordOf(count), operands.in[0], operands.out[0],
                                         operands.out[1], WordOf(axis_.extent), WordOf(axis_.inner),
                                         WordOf(kept_), from, WordOf(row_)});
  }

  /// Of rows of `extent` items.
  void Pick(Machine& machine, const Operands& operands, int64_t extent) const {
    Address from = operands.scratch;
    Address to = from + static_cast<Address>(ItemsBytes(rows_ * extent));
    while (extent > kTile) {
      int64_t tiles = CeilDiv(extent, kTile);
      RunTiles(machine, 1, operands,
               {.blocks = rows_ * tiles,
                .extent = extent,
                .tiles = tiles,
                .kept = picked_,
                .from = from,
                .to = to});
      extent = tiles * picked_;
      std::swap(from, to);
    }
    RunTiles(machine, 2, operands, {.blocks = rows_, .extent = extent, .from = from});
  }

  DType dtype_;
  CallAxis axis_;
  int64_t kept_;
  bool descending_;
  int64_t rows_;
  bool packed_;
  bool merges_ = false;
  int64_t row_ = 0;     // items of a row where all are merged
  int64_t picked_ = 0;  // items of each tile where they are not
  int64_t scratch_ = 0;
};

std::unique_ptr<Call> MakeSort(const Graph& graph, const GraphNode& node, Machine&) {
  return std::make_unique<SortCall>(graph, node, node.attrs[0].integer(), -1,
                                    node.attrs[1].boolean());
}

std::unique_ptr<Call> MakeTopK(const Graph& graph, const GraphNode& node, Machine&) {
  return std::make_unique<SortCall>(graph, node, node.attrs[1].integer(), node.attrs[0].integer(),
                                    node.attrs[2].boolean());
}

constexpr CallEntry kCalls[] = {
    {&ops::kSort, MakeSort},
    {&ops::kTopK, MakeTopK},
};

}  // namespace

std::span<const CallEntry> OrderCalls() { return kCalls; }

}  // namespace hammock::cuda
