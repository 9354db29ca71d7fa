// Quotients of integers, which fail where a divisor is 0.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/index_args.h"
#include "backends/cuda/emit/cuda_text.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

class QuotientCall : public Call {
 public:
  QuotientCall(const Graph&, const GraphNode& node)
      : name_(node.op->name()),
        fn_(node.op->scalar),
        dtype_(node.type().dtype()),
        count_(node.type().numel()) {}
  int fault_count() const override { return 1; }
  std::string FaultMessage(uint64_t) const override {
    return name_ + ": ZeroDivisionError: integer division by zero";
  }
  ErrorCode FaultCode() const override { return ErrorCode::kValue; }
  std::vector<KernelSource> Sources() const override {
    ScalarText scalars;
    TypeText fn("Fn");
    fn.Type("Element", MemoryType(dtype_))
        .Type("Value", ValueType(dtype_))
        .Function("Value value(Element x)", scalars.FromMemory("x", dtype_))
        .Function("Element quotient(Value x, Value y)",
                  scalars.ToMemory(scalars.Scalar(fn_, dtype_, {"x", "y"}), dtype_));
    return {SourceOf({.file = "index.cuh",
                      .function = "quotients<Fn>",
                      .argument_bytes = sizeof(QuotientArgs<void>),
                      .definitions = scalars.Functions() + fn.Text()})};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (count_ == 0) return;
    machine.Launch(function(0), ElementGrid(count_),
                   WordsOf(QuotientArgs<void>{.count = count_,
                                              .x = At(operands.in[0]),
                                              .y = At(operands.in[1]),
                                              .to = At(operands.out[0]),
                                              .fault = operands.fault}));
  }

 private:
  std::string name_;
  ScalarFn fn_;
  DType dtype_;
  int64_t count_;
};

constexpr CallEntry kCalls[] = {
    {&ops::kFloorDivide, MakeNode<QuotientCall>},
    {&ops::kTruncDivide, MakeNode<QuotientCall>},
    {&ops::kRemainder, MakeNode<QuotientCall>},
    {&ops::kFmod, MakeNode<QuotientCall>},
};

}  // namespace

std::span<const CallEntry> ElementCalls() { return kCalls; }

}  // namespace hammock::cuda
