// Attention of 16-bit floats that never stores the scores.
//
// Note [Attention on a GPU]
// A block has some queries, 16 or 32 for each of its warps, and visits the keys tile by tile (Note
// [Tiles of attention]), with a running largest score and sum of powers for each query; when the
// largest score grows, the earlier sums are scaled down. Scores are f32; their powers of two
// are rounded to the operands' dtype before they are multiplied by the values. The order of sums
// depends on shapes alone.
#include "backends/cuda/calls/attention_kernels.h"
#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/passes/expand_attention.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

class AttentionCall : public AttentionKernels {
 public:
  AttentionCall(const GraphNode& node, const Machine& machine) : AttentionKernels(node, machine) {
    for (size_t i = 0; i < kOperands; ++i) rows_[i] = LayoutOf(node, i);
    tiling_.others = tiling_.part = is_wide() ? 32 : 64;
    tiling_.tiles = is_wide() || is_async_ ? 1 : 2;
    if (is_async_) {
      tiling_.is_async = true;
      tiling_.threads = is_wide() ? 256 : 128;
      tiling_.blocks = is_wide() ? 1 : 4;
    }
  }

  std::vector<KernelSource> Sources() const override {
    const char* function = is_async_ ? "attention_async" : "attention";
    return {Kernel("attention.cuh", function, sizeof(AttentionArgs), tiling_)};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    machine.Launch(function(0), GridFor(sizes_.queries, tiling_),
                   WordsOf(AttentionArgs{.inner = sizes_.inner,
                                         .query = RowsOf(operands.in[0], rows_[0]),
                                         .key = RowsOf(operands.in[1], rows_[1]),
                                         .value = RowsOf(operands.in[2], rows_[2]),
                                         .result = RowsOf(operands.out[0], rows_[3]),
                                         .log_sums = At(operands.out[1]),
                                         .queries = sizes_.queries,
                                         .keys = sizes_.keys,
                                         .scale = static_cast<float>(scale_ * kLog2OfE),
                                         .mask = MaskOf(operands.in[3])}));
  }

 private:
  static constexpr size_t kOperands = 4;  // query, key, value, result
  AttentionTiling tiling_;
  RowLayout rows_[kOperands];
};

std::unique_ptr<Call> MakeAttention(const Graph&, const GraphNode& node,
                                    const CallContext& context) {
  return std::make_unique<AttentionCall>(node, context.machine);
}

constexpr CallEntry kCalls[] = {
    {&ops::kAttentionStrided, MakeAttention},
    {&ops::kAttentionStridedBackward, MakeAttentionBackward},
    {&ops::kAttentionPackedBackward, MakeAttentionBackward},
};

}  // namespace

std::span<const CallEntry> AttentionCalls() { return kCalls; }

}  // namespace hammock::cuda
