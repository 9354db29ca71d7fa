#include "backends/cpu/calls/quantized.h"

#include <optional>

#include "backends/common/quantized_groups.h"
#include "backends/cpu/matmul/quantized_rows.h"
#include "ops/nn/quantize.h"

namespace hammock::cpu {
namespace {

std::optional<QuantizedRowsSpec> SpecOf(const Graph& graph, const GraphNode& node) {
  const Shape &x = graph.TypeOf(node.inputs[0]), &weight = graph.TypeOf(node.inputs[1]);
  const Shape& scale = graph.TypeOf(node.inputs[2]);
  if (x.numel() == 0 || weight.numel() == 0) return std::nullopt;
  QuantizedRowsSpec spec;
  spec.n = weight.size(0);
  spec.k = weight.size(1);
  spec.m = x.numel() / spec.k;
  spec.x = x.dtype();
  spec.weight = spec.zero = weight.dtype();
  spec.scale = scale.dtype();
  const auto groups = GroupsOf(scale, spec.n, spec.k);
  if (!groups) return std::nullopt;
  spec.group = groups->size;
  spec.scale_stride = groups->stride;
  if (node.inputs[3].node) {
    const Shape& zero = graph.TypeOf(node.inputs[3]);
    if (zero.sizes() != scale.sizes()) return std::nullopt;
    spec.zero = zero.dtype();
    spec.zero_stride = groups->stride;
  }
  if (!QuantizedRows::Takes(spec)) return std::nullopt;
  return spec;
}

class QuantizedLinearCall : public Call {
 public:
  explicit QuantizedLinearCall(const QuantizedRowsSpec& spec) : rows_(spec) {}

  int64_t scratch_bytes() const override { return rows_.scratch_bytes(); }
  void Run(std::span<const char* const> in, std::span<char* const> out,
           char* scratch) const override {
    rows_.Run(
        {.x = in[0], .weight = in[1], .scale = in[2], .zero = in[3], .bias = in[4], .out = out[0]},
        scratch, ThreadPool::Get());
  }
  const char* kernel() const override { return rows_.kernel(); }

 private:
  QuantizedRows rows_;
};

std::unique_ptr<Call> MakeQuantizedLinear(const Graph& graph, const GraphNode& node) {
  const auto spec = SpecOf(graph, node);
  HAMMOCK_CHECK(spec, "quantized_linear was to be expanded");
  return std::make_unique<QuantizedLinearCall>(*spec);
}

constexpr CallEntry kCalls[] = {{&ops::kQuantizedLinear, MakeQuantizedLinear}};

}  // namespace

std::span<const CallEntry> QuantizedCalls() { return kCalls; }

bool RunsWholeQuantized(const Graph& graph, const GraphNode& node) {
  return node.op == &ops::kQuantizedLinear && SpecOf(graph, node).has_value();
}

}  // namespace hammock::cpu
