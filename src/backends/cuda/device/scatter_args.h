#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// A target that no index names: of a wrong one.
inline constexpr uint32_t kWrongTarget = 0xffffffff;

/// Sorted items with one target that are combined one after another; more are divided.
inline constexpr int kScatterRun = 128;

/// The destinations that indices name: the rows, or elements at an offset plus `inner` for each.
template <class Index>
struct TargetArgs {
  const Index* index;
  uint64_t fault;  ///< the address of the word that notes a wrong one
  int64_t extent;  ///< of the dim that indices count
  int64_t inner;
};

/// Elements of `from` go to `to`, at the targets.
template <class Element, class Index>
struct ScatterArgs {
  int64_t count;  ///< of threads, or of indices of a histogram
  const Element* from;
  Element* to;
  TargetArgs<Index> targets;
  int64_t indices = 0;  ///< of a line, and their strides
  int64_t index_stride = 0, from_stride = 0;
};
template <class Element, class Index, int kDims>
struct ScatterDimArgs : ScatterArgs<Element, Index> {
  Strided<kDims> in_self, in_index, in_source;
};

/// Targets that are sorted by their digits, with elements of the source or with positions.
template <class Index, class Load>
struct RadixTargetArgs {
  const Load* source;
  uint32_t* sorted;
  Load* loads;
  TargetArgs<Index> targets;
};
template <class Index, class Load, int kDims>
struct RadixTargetDimArgs : RadixTargetArgs<Index, Load> {
  Strided<kDims> in_self;
};

/// Targets as items of one word, with positions.
template <class Index>
struct TargetItemArgs {
  int64_t count;
  uint64_t* items;
  TargetArgs<Index> targets;
};
template <class Index, int kDims>
struct TargetItemDimArgs : TargetItemArgs<Index> {
  Strided<kDims> in_self;
};

/// Of the kernels after the sort.
template <class Element, class Sorted, class Load, class Wide>
struct SortedScatterArgs {
  int64_t threads;
  const Element* from;
  Element* to;
  const Sorted* sorted;
  const Load* loads;
  uint32_t* lists;  ///< the numbers of short and long runs, then where they begin
  Wide* partial;    ///< sums of parts of long runs
  int64_t count;    ///< of items
  int64_t most_runs;
  int64_t columns;  ///< elements that an index moves
  int64_t inner;    ///< of them, contiguous ones
  int64_t extent;   ///< of the dim that indices count
};
template <class Kind>
struct SortedScatterDimArgs : SortedScatterArgs<typename Kind::Element, typename Kind::Sorted,
                                                typename Kind::Load, typename Kind::Wide> {
  Strided<Kind::kDims> in_source;
};

}  // namespace hammock::cuda
