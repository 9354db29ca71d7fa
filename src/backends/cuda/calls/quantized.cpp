// Linear layers of a few rows with quantised weights: each weight is read once, as it is stored.
#include <optional>
#include <tuple>

#include "backends/common/quantized_groups.h"
#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/quantized_rows_args.h"
#include "backends/cuda/emit/cuda_text.h"
#include "base/never_destroyed.h"
#include "ops/nn/quantize.h"

namespace hammock::cuda {
namespace {

/// More rows of the input are worth a dequantised weight and the matrix units.
constexpr int64_t kMostRows = 8;

struct QuantizedRows {
  int64_t m = 0, n = 0, k = 0;
  DType x = DType::kF32, weight = DType::kI8, scale = DType::kF32, zero = DType::kI8;
  bool has_zero = false;
  int64_t group_chunks = 0;  ///< kGroup of quantized_rows.cuh
  int64_t scale_row = 0;
};

bool IsPacked(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI4 || dtype == DType::kU4;
}
bool IsNarrowFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

/// Nothing if there is no kernel.
std::optional<QuantizedRows> RowsOf(const Graph& graph, const GraphNode& node) {
  const Shape &x = graph.TypeOf(node.inputs[0]), &weight = graph.TypeOf(node.inputs[1]);
  const Shape& scale = graph.TypeOf(node.inputs[2]);
  if (x.numel() == 0 || weight.numel() == 0) return std::nullopt;
  if (!IsNarrowFloat(x.dtype()) || !IsNarrowFloat(scale.dtype()) || !IsPacked(weight.dtype())) {
    return std::nullopt;
  }
  QuantizedRows rows;
  rows.n = weight.size(0);
  rows.k = weight.size(1);
  rows.m = x.numel() / rows.k;
  rows.x = x.dtype();
  rows.weight = weight.dtype();
  rows.scale = scale.dtype();
  const auto groups = GroupsOf(scale, rows.n, rows.k);
  if (!groups || rows.m > kMostRows) return std::nullopt;
  rows.scale_row = groups->stride;
  rows.has_zero = static_cast<bool>(node.inputs[3].node);
  if (rows.has_zero) {
    const Shape& zero = graph.TypeOf(node.inputs[3]);
    rows.zero = zero.dtype();
    if (zero.sizes() != scale.sizes() || !IsPacked(zero.dtype())) return std::nullopt;
  }
  const int64_t chunk = 128 / InfoOf(rows.weight).bits;
  if (rows.k % chunk != 0) return std::nullopt;
  if (groups->size == rows.k) return rows;
  if (groups->size % chunk != 0) return std::nullopt;
  rows.group_chunks = groups->size / chunk;
  return rows;
}

class QuantizedLinearCall : public Call {
 public:
  explicit QuantizedLinearCall(const QuantizedRows& rows) : rows_(rows) {}

  std::vector<KernelSource> Sources() const override {
    using Key = std::tuple<DType, DType, DType, DType, bool, int64_t, int64_t>;
    static auto& known = NeverDestroyed<SourceTable<Key>>();
    const QuantizedRows& r = rows_;
    return {known.Find({r.x, r.weight, r.scale, r.zero, r.has_zero, r.group_chunks, r.m},
                       [&] { return WrittenSource(); })};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    machine.Launch(function(0), BlockGrid(CeilDiv(rows_.n, kWarps)),
                   WordsOf(QuantizedRowsArgs<void, void>{.x = At(operands.in[0]),
                                                         .weight = At(operands.in[1]),
                                                         .scale = At(operands.in[2]),
                                                         .zero = At(operands.in[3]),
                                                         .bias = At(operands.in[4]),
                                                         .out = At(operands.out[0]),
                                                         .n = rows_.n,
                                                         .k = rows_.k,
                                                         .scale_row = rows_.scale_row}));
  }

 private:
  static constexpr int64_t kWarps = 8;  // of a block, with a row of weights each

  KernelSource WrittenSource() const {
    ScalarText scalars;
    auto bits = [](DType dtype) { return static_cast<int64_t>(InfoOf(dtype).bits); };
    TypeText kind("Kind");
    kind.Type("Element", MemoryType(rows_.x))
        .Type("Scale", MemoryType(rows_.scale))
        .Constant("kBits", bits(rows_.weight))
        .Constant("kSigned", IsSigned(rows_.weight))
        .Constant("kZeroBits", rows_.has_zero ? bits(rows_.zero) : 0)
        .Constant("kZeroSigned", IsSigned(rows_.zero))
        .Constant("kColumns", rows_.m)
        .Constant("kGroup", rows_.group_chunks)
        .Function("float value(Element x)", scalars.FromMemory("x", rows_.x))
        .Function("float scale(Scale x)", scalars.FromMemory("x", rows_.scale))
        .Function("Element result(float x)", scalars.ToMemory("x", rows_.x));
    return SourceOf({.file = "quantized_rows.cuh",
                     .function = "quantized_rows<Kind>",
                     .argument_bytes = sizeof(QuantizedRowsArgs<void, void>),
                     .definitions = scalars.Functions() + kind.Text()});
  }

  const QuantizedRows rows_;
};

std::unique_ptr<Call> MakeQuantizedLinear(const Graph& graph, const GraphNode& node,
                                          const CallContext&) {
  const auto rows = RowsOf(graph, node);
  return rows ? std::make_unique<QuantizedLinearCall>(*rows) : nullptr;
}

constexpr CallEntry kCalls[] = {{&ops::kQuantizedLinear, MakeQuantizedLinear}};

}  // namespace

std::span<const CallEntry> QuantizedCalls() { return kCalls; }

bool RunsWholeQuantized(const Graph& graph, const GraphNode& node) {
  return node.op == &ops::kQuantizedLinear && RowsOf(graph, node).has_value();
}

}  // namespace hammock::cuda
