#pragma once
/// The innermost loops of DirectConvolution: blocks of output channels at runs of positions, with
/// the sums in registers.

#include <cstdint>

#include "backends/cpu/host/cpu_features.h"

namespace hammock::cpu {

/// Positions that lie evenly and read the same taps, and a block of output channels. Images have
/// their channels last, but for the input of a dense convolution. All steps are in elements.
struct DirectRun {
  const float* input;   ///< what the first position reads by the first tap
  const float* weight;  ///< of the first tap: [input channels, channels of the block]
  float* out;           ///< [positions, channels of the block]
  int64_t positions, input_step, out_step;
  int64_t rows, input_row, weight_row;  ///< taps
  int64_t columns, input_column, weight_column;
  int64_t terms, term_step;  ///< input channels of a dense convolution
  int64_t last_vector;       ///< where the last vector of channels begins: it may overlap another
  const float* bias;         ///< of the block; null: sums are stored as they are
  const float* other;        ///< added where there is one; lies as `out`
  float low, high;           ///< bounds of sums with a bias
};

/// Channels are handled in vectors of `lanes`, up to `most_vectors` of them in a block. A loop adds
/// the products of each element in one order, whatever the vectors and the run: by rows of taps,
/// columns of taps and input channels.
struct DirectLoops {
  using Loop = void (*)(const DirectRun& run);
  int lanes = 0;
  int most_vectors = 0;
  Loop dense[4] = {};  ///< by vectors of a block, less one
  Loop depthwise[4] = {};

  /// The loops for a kind of processor; null where it has no fused multiply-add that is known here.
  static const DirectLoops* Of(Processor processor);
};

}  // namespace hammock::cpu
