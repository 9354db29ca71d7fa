// The gradients of attention of 16-bit floats; the scores are never stored.
//
// Note [Gradients of attention]
// The softmax is recomputed from its denominators: weights = exp(scores - log_sum), and the
// gradient of the scores is weights * (grad . value - delta). Both are rounded to the operands'
// dtype before they are multiplied. One kernel has queries in its rows and sums the query's
// gradient over the keys, the other one has keys and sums theirs and the values' over the queries,
// so no two blocks add to the same memory, and the order of sums depends on shapes alone.
#include "backends/cuda/calls/attention_kernels.h"
#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/passes/expand_attention.h"
#include "ops/primitives/attention_node.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

class AttentionBackwardCall : public AttentionKernels {
 public:
  AttentionBackwardCall(const GraphNode& node, const Machine& machine)
      : AttentionKernels(node, machine) {
    for (size_t i = 0; i < kOperands; ++i) rows_[i] = LayoutOf(node, i);
    for (size_t i = 0; i < kResults; ++i) results_[i] = LayoutOf(node, kOperands + i);
    // As much as registers hold.
    of_queries_.others = is_wide() ? 32 : 64;
    of_queries_.part = 16;
    of_queries_.tiles = is_wide() || is_async_ ? 1 : 2;
    of_queries_.packed = node.op == &ops::kAttentionPackedBackward;
    of_keys_ = of_queries_;
    if (is_async_) {
      of_queries_.is_async = of_keys_.is_async = true;
      of_queries_.blocks = of_keys_.blocks = 2;
      of_keys_.others = 32;
      of_queries_.part = of_queries_.others;
      of_keys_.part = of_keys_.others;
    }
  }

  std::vector<KernelSource> Sources() const override {
    auto kernel = [this](const char* function, const AttentionTiling& tiling) {
      return Kernel("attention_backward.cuh", function, sizeof(AttentionBackwardArgs), tiling);
    };
    if (!is_async_) {
      return {kernel("attention_query_gradient", of_queries_),
              kernel("attention_key_gradient", of_keys_)};
    }
    // Long rows leave no registers for the scores of a second tile.
    return {
        kernel("attention_query_gradient_async", of_queries_),
        kernel(is_wide() ? "attention_key_gradient" : "attention_key_gradient_async", of_keys_)};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    std::vector<uint64_t> arguments =
        WordsOf(AttentionBackwardArgs{.inner = sizes_.inner,
                                      .grad = RowsOf(operands.in[0], rows_[0]),
                                      .query = RowsOf(operands.in[1], rows_[1]),
                                      .key = RowsOf(operands.in[2], rows_[2]),
                                      .value = RowsOf(operands.in[3], rows_[3]),
                                      .log_sums = At(operands.in[5]),
                                      .deltas = At(operands.in[6]),
                                      .queries = sizes_.queries,
                                      .keys = sizes_.keys,
                                      .scale = static_cast<float>(scale_ * kLog2OfE),
                                      .result_scale = static_cast<float>(scale_),
                                      .mask = MaskOf(operands.in[4]),
                                      .query_result = ResultOf(operands, 0),
                                      .key_result = ResultOf(operands, 1),
                                      .value_result = ResultOf(operands, 2)});
    machine.Launch(function(0), GridFor(sizes_.queries, of_queries_), arguments);
    machine.Launch(function(1), GridFor(sizes_.keys, of_keys_), arguments);
  }

 private:
  static constexpr size_t kOperands = 4;  // grad, query, key, value
  static constexpr size_t kResults = 3;

  RowArgs ResultOf(const Operands& operands, size_t i) const {
    return RowsOf(operands.out[of_keys_.packed ? 0 : i], results_[i]);
  }

  AttentionTiling of_queries_, of_keys_;
  RowLayout rows_[kOperands], results_[kResults];
};

}  // namespace

std::unique_ptr<Call> MakeAttentionBackward(const Graph&, const GraphNode& node,
                                            const CallContext& context) {
  return std::make_unique<AttentionBackwardCall>(node, context.machine);
}

}  // namespace hammock::cuda
