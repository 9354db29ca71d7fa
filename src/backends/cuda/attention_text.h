#pragma once
/// What kernels of attention share: products of tiles by the matrix units.
///
/// Note [Tiles of attention]
/// A warp multiplies from fragments that its lanes hold: lane l has rows l / 4 and l / 4 + 8, and
/// columns 2 (l % 4) and the next, of each tile of 16 by 8. Fragments of results lie as those of
/// operands do, so scores, rounded to the operands' dtype, go straight into the next product. What
/// all warps of a block multiply by comes through shared memory, a tile ahead of its use; its rows
/// are 16 bytes apart from a multiple of 128, so that eight of them meet all banks.

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/attention_views.h"
#include "backends/cuda/calls.h"

namespace hammock::cuda {

/// Functions that kernels with operands of `dtype`, f16 or bf16, call.
std::string AttentionFunctions(DType dtype);

/// The words of a kernel that say where the rows of an operand lie: after its address, which is the
/// first row's.
std::vector<uint64_t> WordsOf(const RowLayout& rows);
/// The six words of a mask.
std::vector<uint64_t> WordsOf(const MaskLayout& mask, Address at, double scale);
inline Address AddressOf(Address base, const RowLayout& rows) {
  return base + static_cast<Address>(rows.offset * 2);
}

/// The word of a kernel that is a float.
uint64_t WordOfFloat(double value);

inline constexpr double kLog2OfE = 1.4426950408889634;

/// calls_attention_backward.cpp
std::unique_ptr<Call> MakeAttentionBackward(const Graph& graph, const GraphNode& node, Machine&);

}  // namespace hammock::cuda
