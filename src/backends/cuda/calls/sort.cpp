// Sorting, the k first, and where elements are not 0. Elements that are sorted become integers that
// are ordered as they are, with their positions, so no two are equal and any order of merging gives
// the one result.
#include <fmt/format.h>

#include <bit>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/item_sort.h"
#include "backends/cuda/calls/radix_sort.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emit/scalar_text.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kMostPicked = 256;       // to be better than sorting all
constexpr int64_t kEnoughBlocks = 1056;    // to pick from parts of rows
constexpr int64_t kShortPart = 1 << 14;    // from which it does not pay
constexpr int64_t kMostOfParts = 1 << 15;  // items that are picked from the parts of a row
constexpr int64_t kMostItems = (int64_t{1} << 32) - 1;  // whose positions have 32 bits

std::string Unsigned(uint64_t x) { return fmt::format("{}{}", x, x >> 32 ? "ull" : "u"); }

/// `order_key`: an integer that is ordered as the elements are: -0 equals 0 and NaN is the largest.
std::string KeyText(DType dtype, bool descending) {
  int bits = InfoOf(dtype).bits;
  std::string_view type = BytesType(bits / 8);
  uint64_t all = ~uint64_t{0} >> (64 - bits), sign = all / 2 + 1;
  std::string_view integer = BytesType(std::max(bits / 8, 4));
  std::string text =
      fmt::format("__device__ inline {0} order_key({1} x) {{\n  {0} key = x;\n", integer, type);
  if (dtype == DType::kBool) {
    text += "  key = key != 0;\n";
  } else if (IsFloat(dtype)) {
    uint64_t infinity = dtype == DType::kF64    ? 0x7ff0000000000000
                        : dtype == DType::kF32  ? 0x7f800000
                        : dtype == DType::kBF16 ? 0x7f80
                                                : 0x7c00;
    text += fmt::format(
        "  const {4} size = key & {0};\n"
        "  if (size == 0) key = 0;\n"
        "  key = key & {1} ? ~key & {2} : key | {1};\n"
        "  if (size > {3}) key = {2};\n",
        Unsigned(sign - 1), Unsigned(sign), Unsigned(all), Unsigned(infinity), integer);
  } else if (InfoOf(dtype).kind == DTypeKind::kSigned) {
    text += fmt::format("  key ^= {};\n", Unsigned(sign));
  }
  return text + fmt::format("  return {};\n}}\n",
                            descending ? "~key & " + Unsigned(all) : std::string("key"));
}

/// Of elements with their positions. Arguments: elements, values, positions, kept of a row, stride.
RadixItems ElementItems(DType dtype, const CallAxis& axis, bool descending) {
  int bits = InfoOf(dtype).bits;
  const char* inner = axis.inner > 1 ? "(long long)w20" : "1ll";
  RadixItems items = {.rows = axis.outer * axis.inner,
                      .extent = axis.extent,
                      .key_bytes = bits / 8,
                      .key_bits = dtype == DType::kBool ? 1 : bits,
                      .narrows = bits >= 32 && !IsFloat(dtype),
                      .functions = KeyText(dtype, descending),
                      .arguments = 5};
  items.read_key =
      fmt::format("key = ((const Key*)w16)[(row / {0} * extent + at) * {0} + row % {0}];", inner);
  items.read_load = "load = (Load)at;";
  items.write = fmt::format(
      "const long long to = (row / {0} * (long long)w19 + at) * {0} + row % {0};\n"
      "if (at < (long long)w19) {{\n  ((Key*)w17)[to] = key;\n  ((long long*)w18)[to] = load;\n}}",
      inner);
  return items;
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
    std::string functions = KeyText(dtype_, descending_) + ItemText(packed_);
    std::string_view element = BytesType(InfoOf(dtype_).bits / 8);
    auto tile = [&](SortTileKind kind) {
      kind.strided = axis_.inner > 1;
      return BlockKernel(12, functions, SortTileText(kind, element));
    };
    if (axis_.extent <= kSortTile) {
      auto width = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(axis_.extent, 2)));
      return {tile({.width = static_cast<int64_t>(width), .writes_items = false})};
    }
    if (radix_) return radix_->Sources();
    if (merges_) {
      return {tile({}), BlockKernel(6, functions, MergeItemsText()),
              ElementKernel(9, functions, FinishText(element, axis_.inner > 1))};
    }
    auto pick = [&](bool from_items, bool writes_items) {
      SortTileKind kind = {
          .strided = axis_.inner > 1, .from_items = from_items, .writes_items = writes_items};
      return BlockKernel(12, functions, PickText(kind, element));
    };
    if (parts_ == 1) return {pick(false, false)};
    return {pick(false, true), pick(true, false)};
  }
  int64_t scratch_bytes() const override { return scratch_; }

  void Run(Machine& machine, const Operands& operands) const override {
    if (rows_ == 0 || kept_ == 0) return;
    if (axis_.extent <= kSortTile) {
      auto width = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(axis_.extent, 2)));
      int64_t blocks = CeilDiv(rows_, kSortTile / static_cast<int64_t>(width));
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

  void RunTiles(Machine& machine, size_t which, const Operands& operands, const Tiles& t) const {
    Address to = t.to ? t.to : operands.out[0];
    machine.Launch(function(which), BlockGrid(t.blocks),
                   std::vector<uint64_t>{Argument(t.blocks), operands.in[0], to, operands.out[1],
                                         Argument(t.extent), Argument(axis_.inner), Argument(rows_),
                                         Argument(t.kept < 0 ? kept_ : t.kept), Argument(t.tiles),
                                         t.from, Argument(axis_.extent), Argument(t.part)});
  }

  void Merge(Machine& machine, const Operands& operands) const {
    Address from = operands.scratch, to = from + static_cast<Address>(scratch_ / 2);
    int64_t blocks = rows_ * (row_ / kSortTile);
    for (int64_t width = kSortTile; width < row_; width *= 2) {
      machine.Launch(
          function(1), BlockGrid(blocks),
          std::vector<uint64_t>{Argument(blocks), from, to, 0, Argument(width), Argument(row_)});
      std::swap(from, to);
    }
    Finish(machine, function(2), operands, from);
  }

  void SortByDigits(Machine& machine, const Operands& operands) const {
    std::vector<const Function*> functions;
    for (size_t i = 0; i < radix_->kernels(); ++i) functions.push_back(&function(i));
    radix_->Run(
        machine, functions, operands.scratch,
        {operands.in[0], operands.out[0], operands.out[1], Argument(kept_), Argument(axis_.inner)});
  }

  void Finish(Machine& machine, const Function& finish, const Operands& operands,
              Address items) const {
    int64_t count = rows_ * kept_;
    machine.Launch(
        finish, ElementGrid(count),
        std::vector<uint64_t>{Argument(count), operands.in[0], operands.out[0], operands.out[1],
                              Argument(axis_.extent), Argument(axis_.inner), Argument(kept_), items,
                              Argument(row_)});
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
    const int arguments = kArguments + type_.rank();
    return {
        BlockKernel(arguments, "", CountText()), BlockKernel(arguments, BlockSumsText(), kOffsets),
        BlockKernel(arguments, BlockSumsText(), WriteText()), ElementKernel(arguments, "", kFill)};
  }
  int64_t scratch_bytes() const override { return (tiles_ + 1) * 4; }

  void Run(Machine& machine, const Operands& operands) const override {
    int64_t count = limit_ * type_.rank();
    if (count == 0) return;
    std::vector<uint64_t> arguments = {
        Argument(tiles_), operands.in[0],         operands.out[0],  operands.scratch,
        Argument(limit_), Argument(type_.rank()), Argument(tiles_), Argument(type_.numel())};
    for (int d = 0; d < type_.rank(); ++d) arguments.push_back(Argument(type_.size(d)));
    if (tiles_ > 0) machine.Launch(function(0), BlockGrid(tiles_), arguments);
    machine.Launch(function(1), BlockGrid(1), arguments);
    if (tiles_ > 0) machine.Launch(function(2), BlockGrid(tiles_), arguments);
    arguments[0] = Argument(count);
    machine.Launch(function(3), ElementGrid(count), arguments);
  }

 private:
  static constexpr int kArguments = 8;  // then the sizes

  std::string Test(const char* element) const {
    ScalarText scalars;
    return scalars.FromMemory(
               fmt::format("((const {}*)w1)[{}]", MemoryType(type_.dtype()), element),
               type_.dtype()) +
           " != 0";
  }
  std::string CountText() const {
    return fmt::format(R"(
  __shared__ unsigned found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  unsigned mine = 0;
  const long long end = (long long)w7;
  for (int k = threadIdx.x; k < 2048; k += 256) {{
    const long long at = block * 2048 + k;
    if (at < end && {}) ++mine;
  }}
  atomicAdd(&found, mine);
  __syncthreads();
  if (threadIdx.x == 0) ((unsigned*)w3)[block] = found;
)",
                       Test("at"));
  }
  /// Counts become offsets; the last one is the total.
  static constexpr const char* kOffsets = R"(
  const int t = threadIdx.x;
  unsigned* counts = (unsigned*)w3;
  __shared__ unsigned sums[8];
  __shared__ unsigned all;
  unsigned before = 0;
  for (long long first = 0; first < (long long)w0; first += 256) {
    const unsigned mine = first + t < (long long)w0 ? counts[first + t] : 0;
    const unsigned here = sum_to_here(mine, sums, t);
    if (first + t < (long long)w0) counts[first + t] = before + here - mine;
    if (t == 255) all = here;
    __syncthreads();
    before += all;
    __syncthreads();
  }
  if (t == 0) counts[w0] = before;
)";
  std::string WriteText() const {
    std::string body = fmt::format(R"(
  const int t = threadIdx.x;
  __shared__ unsigned sums[8];
  const long long first = block * 2048 + 8 * t, end = (long long)w7;
  unsigned mine = 0;
  for (int k = 0; k < 8; ++k) {{
    const long long at = first + k;
    if (at < end && {}) mine |= 1u << k;
  }}
  unsigned count = 0;
  for (int k = 0; k < 8; ++k) count += mine >> k & 1;
  long long place = ((const unsigned*)w3)[block] + sum_to_here(count, sums, t) - count;
  for (int k = 0; k < 8; ++k) {{
    if (!(mine >> k & 1)) continue;
    if (place >= (long long)w4) return;
    long long rest = first + k;
    long long* to = (long long*)w2 + place++ * {};
)",
                                   Test("at"), type_.rank());
    for (int d = type_.rank(); d-- > 0;) {
      body += fmt::format("    to[{0}] = rest % (long long)w{1}; rest /= (long long)w{1};\n", d,
                          kArguments + d);
    }
    return body + "  }\n";
  }
  static constexpr const char* kFill = R"(
  if (i / (long long)w5 >= ((const unsigned*)w3)[w6]) ((long long*)w2)[i] = -1;
)";

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
