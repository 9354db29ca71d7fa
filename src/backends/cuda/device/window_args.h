#pragma once

#include "backends/cuda/device/args.h"

namespace hammock::cuda {

/// A thread for each window, or for each element.
template <class From, class To, class Position>
struct WindowArgs {
  int64_t count;
  const From* from;
  To* to;
  const Position* positions = nullptr;  ///< of the maxima of windows, in their planes
};

/// The last dims of operand and result: the sizes of planes of results and operands, the padding
/// and the windows.
template <int kDims>
struct WindowDims {
  int64_t out[kDims], in[kDims], low[kDims], window[kDims];
};
template <class From, class To, class Position, int kDims>
struct WindowDimArgs : WindowArgs<From, To, Position> {
  WindowDims<kDims> dims;
};

}  // namespace hammock::cuda
