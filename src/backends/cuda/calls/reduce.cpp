// Reductions that the loop IR does not have: arg_max and arg_min.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emit/scalar_text.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

/// A block for each line: each thread reduces every 256th element, then the block reduces over its
/// threads.
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
                   std::vector<uint64_t>{Argument(lines), operands.in[0], operands.out[0],
                                         Argument(axis_.extent), Argument(axis_.inner)});
  }

 private:
  bool is_max_;
  DType dtype_;
  CallAxis axis_;
};

constexpr CallEntry kCalls[] = {
    {&ops::kArgMax, MakeNode<ArgCall>},
    {&ops::kArgMin, MakeNode<ArgCall>},
};

}  // namespace

std::span<const CallEntry> ReduceCalls() { return kCalls; }

}  // namespace hammock::cuda
