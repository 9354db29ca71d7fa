#pragma once
/// Finds out whether an epilogue is one that a convolution can apply to its sums in registers: a
/// bias of channels, another image and bounds (ChannelEpilogue in matmul.h).

#include <limits>
#include <optional>

#include "hammock/compiler/kernel.h"

namespace hammock::cpu {

/// The accesses of a kernel that is a ChannelEpilogue, and its numbers.
struct ChannelEpilogueForm {
  int bias = -1;
  int other = -1;  ///< or none
  int out = -1;
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};

/// Of a launch whose rows are all positions, and whose access to `result` is that of a matmul or
/// convolution. Bits are those of the kernel, whose ops have to come in the order of the struct.
std::optional<ChannelEpilogueForm> FindChannelEpilogue(const compiler::Launch& launch,
                                                       compiler::BufferId result);

}  // namespace hammock::cpu
