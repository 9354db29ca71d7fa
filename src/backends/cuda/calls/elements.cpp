// Quotients of integers, which fail where a divisor is 0.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emit/scalar_text.h"
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
    std::string_view type = MemoryType(dtype_);
    std::string x = scalars.FromMemory(fmt::format("((const {}*)w1)[i]", type), dtype_);
    std::string body = fmt::format(
        "  const {0} y = {1};\n  if (y == 0) note_fault(w4, i, 0);\n"
        "  (({2}*)w3)[i] = {3};\n",
        ValueType(dtype_), scalars.FromMemory(fmt::format("((const {}*)w2)[i]", type), dtype_),
        type, scalars.ToMemory(scalars.Scalar(fn_, dtype_, {x, "y"}), dtype_));
    return {ElementKernel(5, scalars.Functions(), body)};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (count_ == 0) return;
    machine.Launch(function(0), ElementGrid(count_),
                   std::vector<uint64_t>{Argument(count_), operands.in[0], operands.in[1],
                                         operands.out[0], operands.fault});
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
