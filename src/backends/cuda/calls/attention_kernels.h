#pragma once
/// The base of the calls of attention and its gradient; their code is in device/attention*.cuh.

#include "backends/cuda/calls/calls.h"
#include "backends/cuda/device/attention_args.h"
#include "backends/cuda/passes/attention_views.h"

namespace hammock::cuda {

inline constexpr double kLog2OfE = 1.4426950408889634;

/// How the rows of queries and keys are divided among threads and steps of a kernel.
struct AttentionTiling {
  int threads = 128;      ///< of a block
  int blocks = 1;         ///< resident blocks that a multiprocessor shall have at least
  int tiles = 1;          ///< tiles of 16 rows that each warp holds
  int others = 64;        ///< rows of the other operand in one tile of shared memory
  int part = 64;          ///< rows of such a tile that are multiplied at once
  bool is_async = false;  ///< Note [Asynchronous matmuls]
  bool packed = false;    ///< gradients have no -0; see kAttentionPackedBackward

  int64_t rows() const { return int64_t{threads} / 2 * tiles; }
};

/// The base of attention and its gradient.
class AttentionKernels : public Call {
 public:
  AttentionKernels(const GraphNode& node, const Machine& machine);

 protected:
  /// `function` of a file of device/, without its template argument.
  KernelSource Kernel(const char* file, const char* function, size_t argument_bytes,
                      const AttentionTiling& tiling) const;
  MaskArgs MaskOf(Address at) const;
  static RowArgs RowsOf(Address base, const RowLayout& rows);
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
