#pragma once
/// The structure that graphs of different sizes share, and the sizes themselves.

#include <cstdint>
#include <memory>
#include <span>
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
struct SizeSlot {
  enum Kind : uint8_t { kInputDim, kDim, kAttribute, kConstant };
  Kind kind = kDim;
  NodeId node;
  int which = 0;     ///< output, or attribute
  int position = 0;  ///< dim, or position in a list
  /// The slot in the graph that the attribute is, such as the body of a loop. The kind is
  /// kConstant then: it follows from sizes outside.
  std::shared_ptr<const SizeSlot> inside = nullptr;
};

template <class Io>
void Fields(Io& io, SizeSlot& slot) {
  io(slot.kind, slot.node, slot.which, slot.position, slot.inside);
}

/// Linear. Bodies of loops, branches and calls count; other graphs in attributes are part of the
/// words, sizes included.
Skeleton SkeletonOf(const Graph& graph);
/// One for each of the skeleton's sizes.
std::vector<SizeSlot> SizeSlotsOf(const Graph& graph);
/// Sets sizes of the node that `slots` are in, which are in order.
void SetSizes(GraphNode& node, std::span<const SizeSlot> slots, std::span<const int64_t> sizes);

}  // namespace hammock
