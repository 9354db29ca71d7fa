// Sorting and the k first. Elements become integers that are ordered as they are, with their
// positions, so no two are equal and any order of merging gives the one result.
#include <fmt/format.h>

#include <bit>

#include "backends/cuda/call_kit.h"
#include "backends/cuda/item_sort.h"
#include "ops/primitives.h"

namespace hammock::cuda {
namespace {

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

/// Items of all elements, row by row: one thread for each.
std::string ItemsText(std::string_view element, bool strided) {
  return fmt::format("  typedef {} E;\n  const long long inner = {};\n", element,
                     strided ? "(long long)w4" : "1") +
         R"(
  const long long extent = (long long)w3, row = i / extent, at = i % extent;
  const E x = ((const E*)w1)[(row / inner * extent + at) * inner + row % inner];
  ((Item*)w2)[i] = make_item(order_key(x), at);
)";
}

/// Values and positions of sorted items: one thread for each result.
std::string FinishText(std::string_view element, bool strided) {
  return fmt::format("  typedef {} E;\n  const long long inner = {};\n", element,
                     strided ? "(long long)w5" : "1") +
         R"(
  const long long extent = (long long)w4, kept = (long long)w6;
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
    int64_t tiles = CeilDiv(axis_.extent, kSortTile);
    if (axis_.extent <= kSortTile) return;
    merges_ = kept_ > kMostPicked;
    if (merges_ && packed_ && axis_.extent >= kManyItems && rows_ > 0) {
      radix_.emplace(rows_, axis_.extent, InfoOf(dtype_).bits / 8);
      row_ = axis_.extent;
      scratch_ = radix_->scratch_bytes();
    } else if (merges_) {
      row_ = tiles * kSortTile;
      scratch_ = 2 * ItemsBytes(rows_ * row_);
    } else {
      picked_ =
          static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(kept_, 1))));
      scratch_ = ItemsBytes(rows_ * tiles * picked_) +
                 ItemsBytes(rows_ * CeilDiv(tiles * picked_, kSortTile) * picked_);
    }
  }

  std::vector<KernelSource> Sources() const override {
    std::string functions = KeyText(dtype_, descending_) + ItemText(packed_);
    std::string_view element = BytesType(InfoOf(dtype_).bits / 8);
    auto tile = [&](SortTileKind kind) {
      kind.strided = axis_.inner > 1;
      return BlockKernel(11, functions, SortTileText(kind, element));
    };
    if (axis_.extent <= kSortTile) {
      auto width = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(axis_.extent, 2)));
      return {tile({.width = static_cast<int64_t>(width), .writes_items = false})};
    }
    if (radix_) {
      std::vector<KernelSource> sources = radix_->Sources();
      sources.push_back(ElementKernel(5, functions, ItemsText(element, axis_.inner > 1)));
      sources.push_back(ElementKernel(9, functions, FinishText(element, axis_.inner > 1)));
      return sources;
    }
    std::vector<KernelSource> sources = {tile({})};
    if (merges_) {
      sources.push_back(BlockKernel(6, functions, MergeItemsText()));
      sources.push_back(ElementKernel(9, functions, FinishText(element, axis_.inner > 1)));
    } else {
      sources.push_back(tile({.from_items = true}));
      sources.push_back(tile({.from_items = true, .writes_items = false}));
    }
    return sources;
  }
  int64_t scratch_bytes() const override { return scratch_; }

  void Run(Machine& machine, const Operands& operands) const override {
    if (rows_ == 0 || kept_ == 0) return;
    if (axis_.extent <= kSortTile) {
      auto width = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(axis_.extent, 2)));
      int64_t blocks = CeilDiv(rows_, kSortTile / static_cast<int64_t>(width));
      return RunTiles(machine, 0, operands, {.blocks = blocks, .extent = axis_.extent});
    }
    if (radix_) return SortByBytes(machine, operands);
    int64_t tiles = CeilDiv(axis_.extent, kSortTile);
    int64_t each = merges_ ? kSortTile : picked_;
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
    int64_t blocks = rows_ * (row_ / kSortTile);
    for (int64_t width = kSortTile; width < row_; width *= 2) {
      machine.Launch(
          function(1), BlockGrid(blocks),
          std::vector<uint64_t>{WordOf(blocks), from, to, 0, WordOf(width), WordOf(row_)});
      std::swap(from, to);
    }
    Finish(machine, function(2), operands, from);
  }

  void SortByBytes(Machine& machine, const Operands& operands) const {
    int64_t count = rows_ * axis_.extent;
    machine.Launch(function(3), ElementGrid(count),
                   std::vector<uint64_t>{WordOf(count), operands.in[0], operands.scratch,
                                         WordOf(axis_.extent), WordOf(axis_.inner)});
    const Function* functions[] = {&function(0), &function(1), &function(2)};
    Finish(machine, function(4), operands, radix_->Run(machine, functions, operands.scratch));
  }

  void Finish(Machine& machine, const Function& finish, const Operands& operands,
              Address items) const {
    int64_t count = rows_ * kept_;
    machine.Launch(finish, ElementGrid(count),
                   std::vector<uint64_t>{WordOf(count), operands.in[0], operands.out[0],
                                         operands.out[1], WordOf(axis_.extent), WordOf(axis_.inner),
                                         WordOf(kept_), items, WordOf(row_)});
  }

  /// Of rows of `extent` items.
  void Pick(Machine& machine, const Operands& operands, int64_t extent) const {
    Address from = operands.scratch;
    Address to = from + static_cast<Address>(ItemsBytes(rows_ * extent));
    while (extent > kSortTile) {
      int64_t tiles = CeilDiv(extent, kSortTile);
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
  std::optional<RadixSorter> radix_;
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
