#pragma once
/// The device functions that kernels of attention share: matmuls of tiles by tensor cores.
///
/// Note [Tiles of attention]
/// A warp multiplies from fragments that its lanes hold: lane l has rows l / 4 and l / 4 + 8, and
/// columns 2 (l % 4) and the next, of each tile of 16 by 8. Fragments of results have the layout of
/// fragments of operands, so scores, rounded to the operands' dtype, are operands of the next
/// matmul. The operand that all warps of a block share is loaded into shared memory, one tile ahead
/// of its use; rows there are padded by 16 bytes beyond a multiple of 128, so that eight rows use
/// all banks.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/calls/calls.h"
#include "backends/cuda/passes/attention_views.h"

namespace hammock::cuda {

///
/// Note [Asynchronous matmuls]
/// Hopper's tensor cores also multiply for four warps at once, 64 rows, and read the second operand
/// from shared memory themselves. Rows of a tile are 128 bytes then, and the 16 bytes with number i
/// of row r are at position i ^ r % 8; wider tiles are several such tiles, one after another.

/// The functions for operands of `dtype`, f16 or bf16, and blocks of `threads`. `async_columns` are
/// the numbers of columns of asynchronous matmuls; none: each warp multiplies by itself.
std::string AttentionFunctions(DType dtype, int threads, const std::set<int>& async_columns);

/// The arguments that give the strides of an operand's rows; they follow the address of its first
/// row.
std::vector<uint64_t> ArgumentsOf(const RowLayout& rows);
/// The six arguments for a mask.
std::vector<uint64_t> ArgumentsOf(const MaskLayout& mask, Address at, double scale);
inline Address AddressOf(Address base, const RowLayout& rows) {
  return base + static_cast<Address>(rows.offset * 2);
}

/// A kernel argument that is a float.
uint64_t FloatArgument(double value);

inline constexpr double kLog2OfE = 1.4426950408889634;

/// How the rows of queries and keys are divided among threads and steps of a kernel.
struct AttentionTiling {
  int threads = 128;      ///< of a block
  int blocks = 1;         ///< resident blocks that a multiprocessor shall have at least
  int tiles = 1;          ///< tiles of 16 rows that each warp holds
  int others = 64;        ///< rows of the other operand in one tile of shared memory
  int part = 64;          ///< rows of such a tile that are multiplied at once
  bool is_async = false;  ///< Note [Asynchronous matmuls]

  int64_t rows() const { return int64_t{threads} / 2 * tiles; }
};

/// The base of attention and its gradient.
class AttentionKernels : public Call {
 public:
  AttentionKernels(const GraphNode& node, const Machine& machine);

 protected:
  KernelSource Kernel(int arguments, const AttentionTiling& tiling, const std::string& functions,
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

/// In attention_backward.cpp.
std::unique_ptr<Call> MakeAttentionBackward(const Graph& graph, const GraphNode& node,
                                            const CallContext& context);

}  // namespace hammock::cuda
