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
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/calls/calls.h"
#include "backends/cuda/passes/attention_views.h"

namespace hammock::cuda {

///
/// Note [Asynchronous products]
/// Hopper's units also multiply for four warps at once, 64 rows, and read the second operand from
/// shared memory themselves. Rows of a tile are 128 bytes then, and the 16 bytes with number i of
/// row r lie at place i ^ r % 8; wider tiles are several such ones, side by side.

/// Functions that kernels with operands of `dtype`, f16 or bf16, and blocks of `threads` call. The
/// products have `async_columns` columns; none: a warp multiplies by itself.
std::string AttentionFunctions(DType dtype, int threads, const std::set<int>& async_columns);

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

/// How the rows of queries and keys are divided among threads and steps of a kernel.
struct AttentionTiling {
  int threads = 128;      ///< of a block
  int blocks = 1;         ///< resident blocks that a multiprocessor shall have at least
  int tiles = 1;          ///< tiles of 16 rows that each warp holds
  int others = 64;        ///< rows of the other operand in one tile of shared memory
  int part = 64;          ///< rows of such a tile that are multiplied at once
  bool is_async = false;  ///< Note [Asynchronous products]

  int64_t rows() const { return int64_t{threads} / 2 * tiles; }
};

/// What attention and its gradient have in common.
class AttentionKernels : public Call {
 public:
  AttentionKernels(const GraphNode& node, const Machine& machine);

 protected:
  KernelSource Kernel(int words, const AttentionTiling& tiling, const std::string& functions,
                      const std::string& body) const;
  Grid GridFor(int64_t rows, const AttentionTiling& tiling) const;
  bool is_wide() const { return sizes_.width > 64; }

  const AttentionSizes sizes_;
  const DType dtype_;
  const bool is_causal_;
  const double scale_;
  const MaskLayout mask_;
  const bool is_async_;
};

/// calls_attention_backward.cpp
std::unique_ptr<Call> MakeAttentionBackward(const Graph& graph, const GraphNode& node,
                                            const CallPlace& place);

}  // namespace hammock::cuda
