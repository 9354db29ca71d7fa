// Calls with indices: gather, index_select, slices with a start on the device; also random
// words. Wrong indices are noted and nothing outside of an operand is touched.
#include <fmt/format.h>

#include <tuple>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/calls/index_kit.h"
#include "backends/cuda/device/index_args.h"
#include "backends/cuda/emit/cuda_text.h"
#include "base/never_destroyed.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

int64_t BytesOf(DType dtype) { return InfoOf(dtype).bits / 8; }

/// The size of the longest words that divide runs of `bytes`; operands are aligned to 16 bytes.
int64_t WordBytes(int64_t bytes) {
  for (int64_t word : {16, 8, 4, 2}) {
    if (bytes % word == 0) return word;
  }
  return 1;
}

/// out[i] = self[i, but for `dim` index[i]]
class GatherCall : public IndexedCall {
 public:
  GatherCall(const Graph& graph, const GraphNode& node)
      : IndexedCall(node, graph.TypeOf(node.inputs[0]), node.attrs[0].integer()),
        sizes_(AtLeastVector(node.type().sizes())),
        strides_(ContiguousStrides(AtLeastVector(graph.TypeOf(node.inputs[0]).sizes()))),
        stride_(strides_[static_cast<int>(dim_)]),
        element_(BytesType(BytesOf(node.type().dtype()))),
        index_(MemoryType(graph.TypeOf(node.inputs[1]).dtype())),
        count_(node.type().numel()) {
    strides_[static_cast<int>(dim_)] = 0;
  }

  std::vector<KernelSource> Sources() const override {
    const size_t dims = static_cast<size_t>(sizes_.size());
    return {
        SourceOf({.file = "index.cuh",
                  .function = fmt::format("gather<{}, {}, {}>", element_, index_, dims),
                  .argument_bytes = sizeof(GatherArgs<void, void>) + dims * sizeof(Strided<1>)})};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (count_ == 0) return;
    std::vector<uint64_t> arguments = WordsOf(GatherArgs<void, void>{.count = count_,
                                                                     .from = At(operands.in[0]),
                                                                     .index = At(operands.in[1]),
                                                                     .to = At(operands.out[0]),
                                                                     .fault = operands.fault,
                                                                     .extent = extent_,
                                                                     .stride = stride_});
    Append(arguments, sizes_);
    Append(arguments, strides_);
    machine.Launch(function(0), ElementGrid(count_), arguments);
  }

 private:
  Dims sizes_;
  Dims strides_;
  int64_t stride_;
  std::string_view element_, index_;
  int64_t count_;
};

class IndexSelectCall : public IndexedCall {
 public:
  IndexSelectCall(const Graph& graph, const GraphNode& node)
      : IndexedCall(node, graph.TypeOf(node.inputs[0]), node.attrs[0].integer()),
        inner_(CallAxis(graph.TypeOf(node.inputs[0]).sizes(), dim_).inner),
        picked_(graph.TypeOf(node.inputs[1]).numel()),
        index_(MemoryType(graph.TypeOf(node.inputs[1]).dtype())) {
    int64_t bytes = BytesOf(node.type().dtype()), word = WordBytes(inner_ * bytes);
    inner_ = inner_ * bytes / word;
    count_ = node.type().bytes() / word;
    element_ = BytesType(word);
  }

  std::vector<KernelSource> Sources() const override {
    return {SourceOf({.file = "index.cuh",
                      .function = fmt::format("index_select<{}, {}>", element_, index_),
                      .argument_bytes = sizeof(IndexSelectArgs<void, void>)})};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (count_ == 0) return;
    machine.Launch(function(0), ElementGrid(count_),
                   WordsOf(IndexSelectArgs<void, void>{.count = count_,
                                                       .from = At(operands.in[0]),
                                                       .index = At(operands.in[1]),
                                                       .to = At(operands.out[0]),
                                                       .fault = operands.fault,
                                                       .extent = extent_,
                                                       .inner = inner_,
                                                       .picked = picked_}));
  }

 private:
  int64_t inner_, picked_;
  std::string_view element_, index_;
  int64_t count_;
};

/// A slice that is read from, or written to, a start on the device.
class DynamicSliceCall : public Call {
 public:
  DynamicSliceCall(const Graph& graph, const GraphNode& node) {
    updates_ = node.op == &ops::kDynamicUpdateSlice;
    const Shape& whole = graph.TypeOf(node.inputs[0]);
    const Shape& part = updates_ ? graph.TypeOf(node.inputs[1]) : node.type();
    dim_ = node.attrs[0].integer();
    step_ = node.attrs[updates_ ? 1 : 2].integer();
    CallAxis axis(whole.sizes(), dim_);
    extent_ = axis.extent;
    inner_ = axis.inner;
    size_ = part.size(static_cast<int>(dim_));
    span_ = size_ == 0 ? 0 : (size_ - 1) * step_ + 1;
    bytes_ = whole.bytes();
    int64_t bytes = BytesOf(node.type().dtype()), word = WordBytes(inner_ * bytes);
    inner_ = inner_ * bytes / word;
    count_ = part.bytes() / word;
    element_ = BytesType(word);
    start_ = graph.TypeOf(node.inputs[updates_ ? 2 : 1]).dtype();
    name_ = node.op->name();
  }
  int fault_count() const override { return 1; }
  std::string FaultMessage(uint64_t fault) const override { return Message(FaultyIndex(fault)); }
  std::optional<Fault> CheckStart(int64_t start) const override {
    if (start >= 0 && start <= extent_ - span_) return std::nullopt;
    return Fault{FaultCode(), Message(start), ""};
  }
  bool can_hold_back() const override { return updates_; }
  std::vector<KernelSource> Sources() const override {
    static auto& known = NeverDestroyed<SourceTable<std::tuple<std::string_view, DType, bool>>>();
    return {known.Find({element_, start_, updates_}, [&] { return WrittenSource(); })};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (updates_ && operands.in[0] != operands.out[0] && bytes_ > 0) {
      machine.Copy(operands.out[0], operands.in[0], bytes_);
    }
    // The start is checked even if nothing is copied.
    int64_t count = std::max<int64_t>(count_, 0);
    if (count == 0) return;
    machine.Launch(function(0), ElementGrid(count),
                   WordsOf(DynamicSliceArgs<void, void>{.count = count,
                                                        .from = At(operands.in[updates_ ? 1 : 0]),
                                                        .to = At(operands.out[0]),
                                                        .start = At(operands.in[updates_ ? 2 : 1]),
                                                        .fault = operands.fault,
                                                        .failed = At(operands.failed),
                                                        .extent = extent_,
                                                        .inner = inner_,
                                                        .size = size_,
                                                        .step = step_,
                                                        .span = span_}));
  }

 private:
  KernelSource WrittenSource() const {
    ScalarText scalars;
    TypeText start("Start");
    start.Type("Memory", MemoryType(start_))
        .Function("int64_t value(Memory x)",
                  scalars.Cast(scalars.FromMemory("x", start_), start_, DType::kI64));
    return SourceOf({.file = "index.cuh",
                     .function = fmt::format("dynamic_slice<{}, Start, {}>", element_, updates_),
                     .argument_bytes = sizeof(DynamicSliceArgs<void, void>),
                     .definitions = scalars.Functions() + start.Text()});
  }
  std::string Message(int64_t start) const {
    return fmt::format("{}: start ({}) + length ({}) exceeds dimension size ({}) of dimension {}",
                       name_, start, span_, extent_, dim_);
  }

  bool updates_;
  int64_t dim_, step_, extent_, inner_, size_, span_, count_, bytes_;
  std::string_view element_;
  DType start_;
  std::string name_;
};

/// Four random words of Philox for each thread; src/ops/random/philox.h.
class RngBitsCall : public Call {
 public:
  RngBitsCall(const Graph&, const GraphNode& node) : count_(node.type().numel()) {}
  std::vector<KernelSource> Sources() const override {
    return {SourceOf({.file = "index.cuh",
                      .function = "random_bits",
                      .argument_bytes = sizeof(RandomBitsArgs)})};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (count_ == 0) return;
    int64_t blocks = (count_ + 3) / 4;
    machine.Launch(function(0), ElementGrid(blocks),
                   WordsOf(RandomBitsArgs{.blocks = blocks,
                                          .state = At(operands.in[0]),
                                          .to = At(operands.out[0]),
                                          .count = count_}));
  }

 private:
  int64_t count_;
};

/// Its operand, if all conditions hold.
class RequireCall : public Call {
 public:
  RequireCall(const Graph& graph, const GraphNode& node)
      : message_(node.attrs[0].str()),
        bytes_(node.type().bytes()),
        conditions_(graph.TypeOf(node.inputs[1]).numel()) {}
  int fault_count() const override { return 1; }
  std::string FaultMessage(uint64_t) const override { return message_; }
  ErrorCode FaultCode() const override { return ErrorCode::kValue; }
  std::vector<KernelSource> Sources() const override {
    return {SourceOf(
        {.file = "index.cuh", .function = "require", .argument_bytes = sizeof(RequireArgs)})};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (conditions_ > 0) {
      machine.Launch(
          function(0), ElementGrid(conditions_),
          WordsOf(RequireArgs{
              .count = conditions_, .conditions = At(operands.in[1]), .fault = operands.fault}));
    }
    if (operands.in[0] != operands.out[0] && bytes_ > 0) {
      machine.Copy(operands.out[0], operands.in[0], bytes_);
    }
  }

 private:
  std::string message_;
  int64_t bytes_, conditions_;
};

std::string NeedsTruth(const Graph& graph, const GraphNode& node) {
  return graph.TypeOf(node.inputs[1]).dtype() == DType::kBool ? "" : "its condition is no bool";
}

constexpr CallEntry kCalls[] = {
    {&ops::kGather, MakeNode<GatherCall>},
    {&ops::kIndexSelect, MakeNode<IndexSelectCall>},
    {&ops::kDynamicSlice, MakeNode<DynamicSliceCall>},
    {&ops::kDynamicUpdateSlice, MakeNode<DynamicSliceCall>},
    {&ops::kRngBits, MakeNode<RngBitsCall>},
    {&ops::kRequire, MakeNode<RequireCall>, NeedsTruth},
};

}  // namespace

std::span<const CallEntry> IndexCalls() { return kCalls; }

}  // namespace hammock::cuda
