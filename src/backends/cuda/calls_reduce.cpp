// Reductions that the loop IR does not have: arg_max and arg_min, windows.
#include <fmt/format.h>

#include "backends/cuda/call_kit.h"
#include "backends/cuda/cuda_text.h"
#include "backends/cuda/scalar_text.h"
#include "ops/primitives.h"

namespace hammock::cuda {
namespace {

using compiler::ReduceFn;

/// What running values are kept in.
DType WideOf(DType dtype) {
  if (IsFloat(dtype)) return DType::kF64;
  return InfoOf(dtype).kind == DTypeKind::kSigned ? DType::kI64 : DType::kU64;
}

/// A block for each line: threads take every 256th element, then meet.
class ArgCall : public Call {
 public:
  ArgCall(const Graph& graph, const GraphNode& node)
      : is_max_(node.op == &ops::kArgMax),
        dtype_(graph.TypeOf(node.inputs[0]).dtype()),
        axis_(graph.TypeOf(node.inputs[0]).sizes(), node.attrs[0].integer()) {}

  std::vector<KernelSource> Sources() const override {
    ScalarText scalars;
    std::string_view type = ValueType(dtype_);
    std::string better = fmt::format(
        "__device__ inline bool better({0} x, long long at_x, {0} y, long long at_y) {{\n"
        "  const bool x_nan = x != x, y_nan = y != y;\n"
        "  if (at_y < 0) return at_x >= 0;\n  if (at_x < 0) return false;\n"
        "  if (x_nan != y_nan) return x_nan;\n"
        "  if (!x_nan && x != y) return x {1} y;\n  return at_x < at_y;\n}}\n",
        type, is_max_ ? ">" : "<");
    std::string body = fmt::format(
        "  const {0}* line = (const {0}*)w1 + block / (long long)w4 * (long long)w3 * (long "
        "long)w4 "
        "+ block % (long long)w4;\n"
        "  {1} best = 0;\n  long long at = -1;\n"
        "  for (long long k = threadIdx.x; k < (long long)w3; k += 256) {{\n"
        "    const {1} x = {2};\n"
        "    if (better(x, k, best, at)) {{ best = x; at = k; }}\n  }}\n"
        "  __shared__ {1} bests[256];\n  __shared__ long long ats[256];\n"
        "  bests[threadIdx.x] = best;\n  ats[threadIdx.x] = at;\n  __syncthreads();\n"
        "  for (int half = 128; half >= 1; half /= 2) {{\n"
        "    if (threadIdx.x < half && better(bests[threadIdx.x + half], ats[threadIdx.x + half], "
        "bests[threadIdx.x], ats[threadIdx.x])) {{\n"
        "      bests[threadIdx.x] = bests[threadIdx.x + half];\n"
        "      ats[threadIdx.x] = ats[threadIdx.x + half];\n    }}\n    __syncthreads();\n  }}\n"
        "  if (threadIdx.x == 0) ((long long*)w2)[block] = ats[0];\n",
        MemoryType(dtype_), type, scalars.FromMemory("line[k * (long long)w4]", dtype_));
    return {BlockKernel(5, better, body)};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    int64_t lines = axis_.outer * axis_.inner;
    if (lines == 0) return;
    machine.Launch(function(0), BlockGrid(lines),
                   std::vector<uint64_t>{WordOf(lines), operands.in[0], operands.out[0],
                                         WordOf(axis_.extent), WordOf(axis_.inner)});
  }

 private:
  bool is_max_;
  DType dtype_;
  CallAxis axis_;
};

ReduceFn FnOf(const std::string& kind) {
  if (kind == "sum") return ReduceFn::kSum;
  if (kind == "prod") return ReduceFn::kProd;
  return kind == "max" ? ReduceFn::kMax : ReduceFn::kMin;
}

/// A thread for each window.
class WindowCall : public Call {
 public:
  WindowCall(const Graph& graph, const GraphNode& node)
      : arg_(node.op == &ops::kReduceWindowArg),
        fn_(arg_ ? ReduceFn::kMax : FnOf(node.attrs[0].str())),
        in_(graph.TypeOf(node.inputs[0])),
        out_(node.type()) {
    size_t first = arg_ ? 0 : 1;
    window_ = node.attrs[first].ints();
    stride_ = node.attrs[first + 1].ints();
    low_ = node.attrs[first + 2].ints();
    dilation_ = node.attrs[first + 4].ints();
  }

  std::vector<KernelSource> Sources() const override {
    ScalarText scalars;
    DType dtype = in_.dtype(), wide = fn_ == ReduceFn::kSum ? WideOf(dtype) : dtype;
    int dims = window_.size(), skipped = in_.rank() - dims;
    int64_t plane = 1;
    std::string body = "  long long rest = i;\n";
    for (int d = dims; d-- > 0;) {
      body += fmt::format("  const long long o{0} = rest % {1} * {2} - {3}; rest /= {1};\n", d,
                          out_.size(skipped + d), stride_[d], low_[d]);
      plane *= in_.size(skipped + d);
    }
    body += fmt::format(
        "  const {0}* plane = (const {0}*)w1 + rest * {1};\n  {2} value = {3};\n"
        "  long long at = -1;\n",
        MemoryType(dtype), plane, ValueType(wide), scalars.Identity(fn_, wide));
    std::string place = "0";
    for (int d = 0; d < dims; ++d) {
      body += fmt::format(
          "  for (long long t{0} = 0; t{0} < {1}; ++t{0}) {{\n"
          "  const long long p{0} = o{0} + t{0} * {2};\n"
          "  if (p{0} < 0 || p{0} >= {3}) continue;\n",
          d, window_[d], dilation_[d], in_.size(skipped + d));
      place = fmt::format("({}) * {} + p{}", place, in_.size(skipped + d), d);
    }
    std::string x = scalars.FromMemory(fmt::format("plane[{}]", place), dtype);
    if (arg_) {
      body += fmt::format(
          "  const {} x = {};\n"
          "  if (at < 0 || x != x || x > value) {{ value = x; at = {}; }}\n",
          ValueType(dtype), x, place);
    } else {
      body += fmt::format("  value = {};\n",
                          scalars.Combine(fn_, wide, "value", scalars.Cast(x, dtype, wide)));
    }
    for (int d = 0; d < dims; ++d) body += "  }\n";
    body += arg_ ? "  ((long long*)w2)[i] = at;\n"
                 : fmt::format(
                       "  (({}*)w2)[i] = {};\n", MemoryType(out_.dtype()),
                       scalars.ToMemory(scalars.Cast("value", wide, out_.dtype()), out_.dtype()));
    return {ElementKernel(3, scalars.Functions(), body)};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (out_.numel() == 0) return;
    machine.Launch(function(0), ElementGrid(out_.numel()),
                   std::vector<uint64_t>{WordOf(out_.numel()), operands.in[0], operands.out[0]});
  }

 private:
  bool arg_;
  ReduceFn fn_;
  Shape in_, out_;
  Dims window_, stride_, low_, dilation_;
};

std::string NoTruth(const Graph& graph, const GraphNode& node) {
  return graph.TypeOf(node.inputs[0]).dtype() == DType::kBool ? "its operand is of bool" : "";
}

constexpr CallEntry kCalls[] = {
    {&ops::kArgMax, MakeNode<ArgCall>},
    {&ops::kArgMin, MakeNode<ArgCall>},
    {&ops::kReduceWindow, MakeNode<WindowCall>, NoTruth},
    {&ops::kReduceWindowArg, MakeNode<WindowCall>, NoTruth},
};

}  // namespace

std::span<const CallEntry> ReduceCalls() { return kCalls; }

}  // namespace hammock::cuda
