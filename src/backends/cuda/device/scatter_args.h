#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// A target that no index names: of a wrong one.
inline constexpr uint32_t kWrongTarget = 0xffffffff;

/// The destinations that indices name: the rows, or elements at an offset plus `inner` for each.
template <class Index>
struct TargetArgs {
  const Index* index;
  uint64_t fault;  ///< the address of the word that notes a wrong one
  int64_t extent;  ///< of the dim that indices count
  int64_t inner;
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

}  // namespace hammock::cuda
