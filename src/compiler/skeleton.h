#pragma once
/// What graphs have in common that differ only in sizes, and the sizes themselves.

#include <cstdint>
#include <vector>

#include "hammock/ir/graph.h"

namespace hammock {

struct Skeleton {
  std::vector<uint64_t> words;  ///< ops, wiring, dtypes, ranks, attributes; equal words: equal but
                                ///< for sizes
  std::vector<int64_t> sizes;   ///< dims and size attributes, in one order for equal words

  Hash128 hash() const;  ///< of the words
};

/// Where in a graph one of the sizes of its skeleton stands.
struct SizePlace {
  enum Kind : uint8_t { kInputDim, kDim, kAttribute, kConstant };
  Kind kind = kDim;
  NodeId node = -1;
  int which = 0;     ///< output, or attribute
  int position = 0;  ///< dim, or position in a list
};

/// Linear. Graphs in attributes (loop bodies) are part of the words, sizes included.
Skeleton SkeletonOf(const Graph& graph);
/// One for each of the skeleton's sizes.
std::vector<SizePlace> SizePlacesOf(const Graph& graph);

}  // namespace hammock
