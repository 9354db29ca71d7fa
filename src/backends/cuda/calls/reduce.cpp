// Reductions that the loop IR does not have: arg_max and arg_min.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/index_args.h"
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
    TypeText read("Read");
    read.Type("Memory", MemoryType(dtype_))
        .Type("Value", ValueType(dtype_))
        .Function("Value value(Memory x)", scalars.FromMemory("x", dtype_));
    return {SourceOf({.file = "arg_reduce.cuh",
                      .function = fmt::format("arg_reduce<Read, {}>", is_max_),
                      .argument_bytes = sizeof(ArgReduceArgs<void>),
                      .definitions = read.Text()})};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    int64_t lines = axis_.outer * axis_.inner;
    if (lines == 0) return;
    machine.Launch(function(0), BlockGrid(lines),
                   WordsOf(ArgReduceArgs<void>{.from = At(operands.in[0]),
                                               .to = At(operands.out[0]),
                                               .extent = axis_.extent,
                                               .inner = axis_.inner}));
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
