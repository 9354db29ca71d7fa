// Calls with indices: gather, index_select, slices with a start on the device; also random
// words. Wrong indices are noted and nothing outside of an operand is touched.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/index_kit.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emit/scalar_text.h"
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
    return {
        ElementKernel(7 + 2 * sizes_.size(), "",
                      OffsetLines(sizes_.size(), 7, "i", "place") +
                          fmt::format("  const long long index = ((const {1}*)w2)[i];\n"
                                      "  const bool inside = index >= 0 && index < (long long)w5;\n"
                                      "  if (!inside) note_fault(w4, i, index);\n"
                                      "  (({0}*)w3)[i] = inside ? ((const {0}*)w1)[place + "
                                      "index * (long long)w6] : ({0})0;\n",
                                      element_, index_))};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (count_ == 0) return;
    std::vector<uint64_t> arguments = {Argument(count_), operands.in[0], operands.in[1],
                                       operands.out[0],  operands.fault, Argument(extent_),
                                       Argument(stride_)};
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
    return {ElementKernel(
        8, "",
        fmt::format(
            "  const long long inner = i % (long long)w6, line = i / (long long)w6;\n"
            "  const long long which = line % (long long)w7, outer = line / (long long)w7;\n"
            "  const long long index = ((const {1}*)w2)[which];\n"
            "  const bool inside = index >= 0 && index < (long long)w5;\n"
            "  if (!inside) note_fault(w4, which, index);\n"
            "  typedef {0} E;\n  ((E*)w3)[i] = inside ? ((const E*)w1)[(outer * (long long)w5 + "
            "index) * "
            "(long long)w6 + inner] : E();\n",
            element_, index_))};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (count_ == 0) return;
    machine.Launch(function(0), ElementGrid(count_),
                   std::vector<uint64_t>{Argument(count_), operands.in[0], operands.in[1],
                                         operands.out[0], operands.fault, Argument(extent_),
                                         Argument(inner_), Argument(picked_)});
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
  std::string FaultMessage(uint64_t fault) const override {
    return fmt::format("{}: start ({}) + length ({}) exceeds dimension size ({}) of dimension {}",
                       name_, FaultyIndex(fault), span_, extent_, dim_);
  }
  std::vector<KernelSource> Sources() const override {
    ScalarText scalars;
    std::string start = scalars.Cast(
        scalars.FromMemory(fmt::format("((const {}*)w3)[0]", MemoryType(start_)), start_), start_,
        DType::kI64);
    std::string line = updates_ ? "to[at] = from[i];" : "to[i] = inside ? from[at] : E();";
    return {ElementKernel(
        10, scalars.Functions(),
        fmt::format("  typedef {0} E;\n  const E* from = (const E*)w1;\n  E* to = (E*)w2;\n"
                    "  const long long start = {1};\n"
                    "  const bool inside = start >= 0 && start <= (long long)w5 - (long long)w9;\n"
                    "  if (!inside) note_fault(w4, 0, start);\n"
                    "  const long long inner = i % (long long)w6, line = i / (long long)w6;\n"
                    "  const long long k = line % (long long)w7, outer = line / (long long)w7;\n"
                    "  const long long at = (outer * (long long)w5 + start + k * (long long)w8) * "
                    "(long long)w6 + inner;\n{2}  {3}\n",
                    element_, start, updates_ ? "  if (!inside) return;\n" : "", line))};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (updates_ && operands.in[0] != operands.out[0] && bytes_ > 0) {
      machine.Copy(operands.out[0], operands.in[0], bytes_);
    }
    // The start is checked even if nothing is copied.
    int64_t count = std::max<int64_t>(count_, 0);
    if (count == 0) return;
    machine.Launch(
        function(0), ElementGrid(count),
        std::vector<uint64_t>{Argument(count), operands.in[updates_ ? 1 : 0], operands.out[0],
                              operands.in[updates_ ? 2 : 1], operands.fault, Argument(extent_),
                              Argument(inner_), Argument(size_), Argument(step_), Argument(span_)});
  }

 private:
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
    return {ElementKernel(4, "", R"(
  unsigned words_of_block[4];
  random_block(w1, i, words_of_block);
  const long long left = (long long)w3 - 4 * i;
  store_some<4>((unsigned*)w2 + 4 * i, left < 4 ? (int)left : 4, words_of_block);
)")};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (count_ == 0) return;
    int64_t blocks = (count_ + 3) / 4;
    machine.Launch(
        function(0), ElementGrid(blocks),
        std::vector<uint64_t>{Argument(blocks), operands.in[0], operands.out[0], Argument(count_)});
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
    return {
        ElementKernel(3, "", "  if (((const unsigned char*)w1)[i] == 0) note_fault(w2, 0, 0);\n")};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (conditions_ > 0) {
      machine.Launch(function(0), ElementGrid(conditions_),
                     std::vector<uint64_t>{Argument(conditions_), operands.in[1], operands.fault});
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
