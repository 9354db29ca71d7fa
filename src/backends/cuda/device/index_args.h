#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// to[i] = from[i, but for one dim index[i]]
template <class Element, class Index>
struct GatherArgs {
  int64_t count;
  const Element* from;
  const Index* index;
  Element* to;
  uint64_t fault;          ///< the address of the word that notes a wrong index
  int64_t extent, stride;  ///< of the dim
};
template <class Element, class Index, int kDims>
struct GatherDimArgs : GatherArgs<Element, Index> {
  Strided<kDims> in_from;  ///< with index 0
};

template <class Element, class Index>
struct IndexSelectArgs {
  int64_t count;
  const Element* from;
  const Index* index;
  Element* to;
  uint64_t fault;
  int64_t extent;  ///< of the dim
  int64_t inner;   ///< elements that an index moves
  int64_t picked;  ///< indices
};

/// A slice from a start on the device, read from `from` or written to `to`.
template <class Element, class Start>
struct DynamicSliceArgs {
  int64_t count;
  const Element* from;
  Element* to;
  const Start* start;
  uint64_t fault;          ///< 0 if the host has checked the start
  const uint64_t* failed;  ///< nothing is written if it is set; null for none
  int64_t extent, inner;
  int64_t size, step;  ///< of the slice
  int64_t span;        ///< from its first to its last element
};

struct RandomBitsArgs {
  int64_t blocks;
  const uint64_t* state;  ///< seed and offset
  uint32_t* to;
  int64_t count;
};

struct RequireArgs {
  int64_t count;
  const unsigned char* conditions;
  uint64_t fault;
};

template <class Element>
struct QuotientArgs {
  int64_t count;
  const Element* x;
  const Element* y;
  Element* to;
  uint64_t fault;  ///< notes a divisor that is 0
};

}  // namespace hammock::cuda
