#include "backends/cuda/calls/item_sort.h"

#include <fmt/format.h>

#include "backends/cuda/calls/device_kernel.h"

namespace hammock::cuda {

KernelSource SortTileSource(const SortTileKind& kind) {
  return SourceOf(
      {.file = "item_sort.cuh",
       .function = fmt::format("sort_tile<{}, {}, {}, {}, {}, {}>", kind.key, ItemType(kind.packed),
                               kind.width, kind.strided, kind.from_items, kind.writes_items),
       .argument_bytes = sizeof(SortArgs<void, void>)});
}

KernelSource PickSource(const SortTileKind& kind) {
  return SourceOf(
      {.file = "item_sort.cuh",
       .function = fmt::format("pick_items<{}, {}, {}, {}, {}>", kind.key, ItemType(kind.packed),
                               kind.strided, kind.from_items, kind.writes_items),
       .argument_bytes = sizeof(SortArgs<void, void>)});
}

KernelSource MergeSource(bool packed) {
  return SourceOf({.file = "item_sort.cuh",
                   .function = fmt::format("merge_items<{}>", ItemType(packed)),
                   .argument_bytes = sizeof(MergeArgs<void>)});
}

ItemSorter::ItemSorter(int64_t count)
    : count_(count), tiles_(CeilDiv(count, kSortTile)), bytes_(tiles_ * kSortTile * 8) {}

std::vector<KernelSource> ItemSorter::Sources() const {
  std::vector<KernelSource> sources = {
      SortTileSource({.key = "SortKey<unsigned, KeyKind::kUnsigned, false>", .from_items = true})};
  if (tiles_ > 1) sources.push_back(MergeSource(/*packed=*/true));
  return sources;
}

Address ItemSorter::Run(Machine& machine, std::span<const Function* const> functions,
                        Address scratch) const {
  Address from = scratch, to = scratch + static_cast<Address>(bytes_);
  machine.Launch(*functions[0], BlockGrid(tiles_),
                 WordsOf(SortArgs<void, void>{.items = At(from),
                                              .sorted = At(to),
                                              .extent = count_,
                                              .row_elements = count_,
                                              .inner = 1,
                                              .rows = 1,
                                              .kept = kSortTile,
                                              .tiles = tiles_}));
  int64_t row = tiles_ * kSortTile;
  for (int64_t width = kSortTile; width < row; width *= 2) {
    std::swap(from, to);
    machine.Launch(
        *functions[1], BlockGrid(tiles_),
        WordsOf(MergeArgs<void>{.from = At(from), .to = At(to), .width = width, .row = row}));
  }
  return to;
}

}  // namespace hammock::cuda
