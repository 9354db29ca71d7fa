// Sorting, the k first, and where elements are not 0. Elements that are sorted become integers that
// are ordered as they are, with their positions, so no two are equal and any order of merging gives
// the one result.
#include <fmt/format.h>

#include <bit>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/calls/item_sort.h"
#include "backends/cuda/calls/radix_sort.h"
#include "backends/cuda/emit/cuda_text.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kMostPicked = 256;       // to be better than sorting all
constexpr int64_t kEnoughBlocks = 1056;    // to pick from parts of rows
constexpr int64_t kShortPart = 1 << 14;    // from which it does not pay
constexpr int64_t kMostOfParts = 1 << 15;  // items that are picked from the parts of a row
constexpr int64_t kMostItems = (int64_t{1} << 32) - 1;  // whose positions have 32 bits

/// The type of integers that are ordered as the elements are.
std::string KeyType(DType dtype, bool descending) {
  const char* kind = dtype == DType::kBool                      ? "kBool"
                     : IsFloat(dtype)                           ? "kFloat"
                     : InfoOf(dtype).kind == DTypeKind::kSigned ? "kSigned"
                                                                : "kUnsigned";
  int mantissa = dtype == DType::kF64    ? 52
                 : dtype == DType::kF32  ? 23
                 : dtype == DType::kBF16 ? 7
                 : dtype == DType::kF16  ? 10
                                         : 0;
  return fmt::format("SortKey<{}, KeyKind::{}, {}, {}>", BytesType(InfoOf(dtype).bits / 8), kind,
                     descending, mantissa);
}

/// Of elements with their positions.
RadixItems ElementItems(DType dtype, const CallAxis& axis, bool descending) {
  int bits = InfoOf(dtype).bits;
  bool narrows = bits >= 32 && !IsFloat(dtype);
  return {.rows = axis.outer * axis.inner,
          .extent = axis.extent,
          .key_bytes = bits / 8,
          .key_bits = dtype == DType::kBool ? 1 : bits,
          .narrows = narrows,
          .file = "radix_elements.cuh",
          .type = fmt::format("RadixElements<{}, {}, {}>", KeyType(dtype, descending),
                              axis.inner > 1, narrows),
          .argument_bytes = sizeof(RadixElementArgs<void>)};
}

/// The first `kept` of each row along a dim, in order. Short rows are sorted by one block, several
/// at once; of long ones tiles are sorted and then merged, or from a length on all by digits. If
/// few are kept, a block picks them from its row, or from a part of it and then from those of all
/// parts.
class SortCall : public Call {
 public:
  SortCall(const Graph& graph, const GraphNode& node, int64_t dim, int64_t kept, bool descending)
      : dtype_(graph.TypeOf(node.inputs[0]).dtype()),
        axis_(graph.TypeOf(node.inputs[0]).sizes(), dim),
        kept_(kept < 0 ? axis_.extent : kept),
        descending_(descending),
        rows_(axis_.outer * axis_.inner),
        packed_(InfoOf(dtype_).bits <= 32 && axis_.extent < kMostItems) {
    int64_t tiles = CeilDiv(axis_.extent, kSortTile);
    if (axis_.extent <= kSortTile) return;
    merges_ = kept_ > kMostPicked;
    if (merges_ && axis_.extent >= kManyItems && axis_.extent < kMostItems && rows_ > 0) {
      radix_.emplace(ElementItems(dtype_, axis_, descending_));
      scratch_ = radix_->scratch_bytes();
    } else if (merges_) {
      row_ = tiles * kSortTile;
      scratch_ = 2 * ItemsBytes(rows_ * row_);
    } else {
      int64_t most =
          std::min(axis_.extent / kShortPart, kMostOfParts / std::max<int64_t>(kept_, 1));
      parts_ = std::clamp<int64_t>(kEnoughBlocks / std::max<int64_t>(rows_, 1), 1,
                                   std::max<int64_t>(most, 1));
      scratch_ = parts_ > 1 ? ItemsBytes(rows_ * parts_ * kept_) : 0;
    }
  }

  std::vector<KernelSource> Sources() const override {
    if (axis_.extent <= kSortTile) {
      return {SortTileSource(Kind({.width = ShortWidth(), .writes_items = false}))};
    }
    if (radix_) return radix_->Sources();
    if (merges_) {
      return {SortTileSource(Kind({})), MergeSource(packed_),
              SourceOf({.file = "item_sort.cuh",
                        .function = fmt::format("finish_sort<{}, {}, {}>",
                                                BytesType(InfoOf(dtype_).bits / 8),
                                                ItemType(packed_), axis_.inner > 1),
                        .argument_bytes = sizeof(FinishSortArgs<void, void>)})};
    }
    if (parts_ == 1) return {PickSource(Kind({.writes_items = false}))};
    return {PickSource(Kind({})), PickSource(Kind({.from_items = true, .writes_items = false}))};
  }
  int64_t scratch_bytes() const override { return scratch_; }

  void Run(Machine& machine, const Operands& operands) const override {
    if (rows_ == 0 || kept_ == 0) return;
    if (axis_.extent <= kSortTile) {
      int64_t blocks = CeilDiv(rows_, kSortTile / ShortWidth());
      return RunTiles(machine, 0, operands, {.blocks = blocks, .extent = axis_.extent});
    }
    if (radix_) return SortByDigits(machine, operands);
    if (!merges_) return Pick(machine, operands);
    int64_t tiles = CeilDiv(axis_.extent, kSortTile);
    RunTiles(machine, 0, operands,
             {.blocks = rows_ * tiles,
              .extent = axis_.extent,
              .tiles = tiles,
              .kept = kSortTile,
              .to = operands.scratch});
    Merge(machine, operands);
  }

 private:
  struct Tiles {
    int64_t blocks = 0, extent = 0, tiles = 1, kept = -1;
    Address from = 0, to = 0;
    int64_t part = 0;  // items of a part where they are picked
  };

  int64_t ItemsBytes(int64_t count) const { return (count * (packed_ ? 8 : 16) + 255) / 256 * 256; }

  SortTileKind Kind(SortTileKind kind) const {
    kind.key = KeyType(dtype_, descending_);
    kind.packed = packed_;
    kind.strided = axis_.inner > 1;
    return kind;
  }
  /// Of a row that fits into a tile.
  int64_t ShortWidth() const {
    return static_cast<int64_t>(
        std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(axis_.extent, 2))));
  }

  void RunTiles(Machine& machine, size_t which, const Operands& operands, const Tiles& t) const {
    machine.Launch(function(which), BlockGrid(t.blocks),
                   WordsOf(SortArgs<void, void>{.elements = At(operands.in[0]),
                                                .items = At(t.from),
                                                .values = At(operands.out[0]),
                                                .positions = At(operands.out[1]),
                                                .sorted = At(t.to),
                                                .extent = t.extent,
                                                .row_elements = axis_.extent,
                                                .inner = axis_.inner,
                                                .rows = rows_,
                                                .kept = t.kept < 0 ? kept_ : t.kept,
                                                .tiles = t.tiles,
                                                .part_size = t.part}));
  }

  void Merge(Machine& machine, const Operands& operands) const {
    Address from = operands.scratch, to = from + static_cast<Address>(scratch_ / 2);
    int64_t blocks = rows_ * (row_ / kSortTile);
    for (int64_t width = kSortTile; width < row_; width *= 2) {
      machine.Launch(
          function(1), BlockGrid(blocks),
          WordsOf(MergeArgs<void>{.from = At(from), .to = At(to), .width = width, .row = row_}));
      std::swap(from, to);
    }
    Finish(machine, function(2), operands, from);
  }

  void SortByDigits(Machine& machine, const Operands& operands) const {
    std::vector<const Function*> functions;
    for (size_t i = 0; i < radix_->kernels(); ++i) functions.push_back(&function(i));
    radix_->Run(machine, functions, operands.scratch,
                WordsOf(RadixElementArgs<void>{.elements = At(operands.in[0]),
                                               .values = At(operands.out[0]),
                                               .positions = At(operands.out[1]),
                                               .kept = kept_,
                                               .inner = axis_.inner}));
  }

  void Finish(Machine& machine, const Function& finish, const Operands& operands,
              Address items) const {
    int64_t count = rows_ * kept_;
    machine.Launch(finish, ElementGrid(count),
                   WordsOf(FinishSortArgs<void, void>{.count = count,
                                                      .elements = At(operands.in[0]),
                                                      .values = At(operands.out[0]),
                                                      .positions = At(operands.out[1]),
                                                      .items = At(items),
                                                      .extent = axis_.extent,
                                                      .inner = axis_.inner,
                                                      .kept = kept_,
                                                      .row = row_}));
  }

  void Pick(Machine& machine, const Operands& operands) const {
    Tiles all = {.blocks = rows_ * parts_,
                 .extent = axis_.extent,
                 .tiles = parts_,
                 .part = CeilDiv(axis_.extent, parts_)};
    if (parts_ > 1) all.to = operands.scratch;
    RunTiles(machine, 0, operands, all);
    if (parts_ == 1) return;
    int64_t left = parts_ * kept_;
    RunTiles(machine, 1, operands,
             {.blocks = rows_, .extent = left, .from = operands.scratch, .part = left});
  }

  DType dtype_;
  CallAxis axis_;
  int64_t kept_;
  bool descending_;
  int64_t rows_;
  bool packed_;
  bool merges_ = false;
  std::optional<RadixSorter> radix_;
  int64_t row_ = 0;    // items of a row where all are merged
  int64_t parts_ = 1;  // of a row where some are picked
  int64_t scratch_ = 0;
};

std::unique_ptr<Call> MakeSort(const Graph& graph, const GraphNode& node, const CallContext&) {
  return std::make_unique<SortCall>(graph, node, node.attrs[0].integer(), -1,
                                    node.attrs[1].boolean());
}

std::unique_ptr<Call> MakeTopK(const Graph& graph, const GraphNode& node, const CallContext&) {
  return std::make_unique<SortCall>(graph, node, node.attrs[1].integer(), node.attrs[0].integer(),
                                    node.attrs[2].boolean());
}

/// The positions of elements that are not 0, in order. Tiles are counted first, so that each knows
/// the offset of its positions.
class NonzeroCall : public Call {
 public:
  NonzeroCall(const Graph& graph, const GraphNode& node)
      : type_(graph.TypeOf(node.inputs[0])),
        limit_(node.attrs[0].integer()),
        tiles_(CeilDiv(type_.numel(), kSortTile)) {}

  std::vector<KernelSource> Sources() const override {
    const int rank = type_.rank();
    if (rank == 0) return {};  // nothing is written
    const std::string element(MemoryType(type_.dtype()));
    ScalarText scalars;
    TypeText tested("Tested");
    tested.Type("Element", element)
        .Function("bool is_nonzero(Element x)", scalars.FromMemory("x", type_.dtype()) + " != 0");
    auto kernel = [&](const std::string& function, size_t more = 0) {
      return SourceOf({.file = "nonzero.cuh",
                       .function = function,
                       .argument_bytes = sizeof(NonzeroArgs<void>) + more,
                       .definitions = scalars.Functions() + tested.Text()});
    };
    return {kernel("count_nonzero<Tested>"), kernel(fmt::format("nonzero_offsets<{}>", element)),
            kernel(fmt::format("write_nonzero<Tested, {}>", rank), static_cast<size_t>(rank) * 8),
            kernel(fmt::format("fill_nonzero<{}, {}>", element, rank))};
  }
  int64_t scratch_bytes() const override { return (tiles_ + 1) * 4; }

  void Run(Machine& machine, const Operands& operands) const override {
    int64_t count = limit_ * type_.rank();
    if (count == 0) return;
    std::vector<uint64_t> arguments = WordsOf(NonzeroArgs<void>{.elements = At(operands.in[0]),
                                                                .positions = At(operands.out[0]),
                                                                .counts = At(operands.scratch),
                                                                .limit = limit_,
                                                                .tiles = tiles_,
                                                                .numel = type_.numel()});
    std::vector<uint64_t> with_sizes = arguments;
    Append(with_sizes, type_.sizes());
    if (tiles_ > 0) machine.Launch(function(0), BlockGrid(tiles_), arguments);
    machine.Launch(function(1), BlockGrid(1), arguments);
    if (tiles_ > 0) machine.Launch(function(2), BlockGrid(tiles_), with_sizes);
    machine.Launch(function(3), ElementGrid(count), arguments);
  }

 private:
  Shape type_;
  int64_t limit_;
  int64_t tiles_;
};

std::string FewElements(const Graph& graph, const GraphNode& node) {
  bool few = graph.TypeOf(node.inputs[0]).numel() < int64_t{1} << 31;
  return few ? "" : "it has too many elements";
}

constexpr CallEntry kCalls[] = {
    {&ops::kSort, MakeSort},
    {&ops::kTopK, MakeTopK},
    {&ops::kNonzeroBounded, MakeNode<NonzeroCall>, FewElements},
};

}  // namespace

std::span<const CallEntry> OrderCalls() { return kCalls; }

}  // namespace hammock::cuda
