#include "backends/cpu/calls/calls.h"

#include <cstring>
#include <string_view>

#include "backends/cpu/calls/call_kit.h"
#include "backends/cpu/calls/fused_matmul.h"
#include "backends/cpu/calls/quantized.h"
#include "backends/cpu/calls/sparse.h"
#include "backends/cpu/matmul/matmul.h"
#include "backends/reference/interpreter.h"
#include "backends/reference/kernel.h"
#include "ir/primitives.h"
#include "ops/primitives/channels_last.h"
#include "ops/primitives/collectives.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cpu {
namespace {

/// The packed weight, an operand behind those of the node; null if there is none.
const char* PackedIn(std::span<const char* const> in, size_t operands) {
  return in.size() > operands ? in[operands] : nullptr;
}

template <class Op>
Call::PackedWeightSpec PackedWeightOf(const Op& op) {
  if (op.packed_bytes() == 0) return {};
  return {1, op.packed_bytes(), op.packed_key()};
}

DotGeneralSpec DotSpecOf(const Graph& graph, const GraphNode& node, const EpilogueSpec& epilogue) {
  DotGeneralSpec spec =
      DotGeneral(graph.TypeOf(node.inputs[0]), graph.TypeOf(node.inputs[1]), node.attrs[0].ints(),
                 node.attrs[1].ints(), node.attrs[2].ints(), node.attrs[3].ints());
  spec.matmul.out_dtype = node.type().dtype();
  spec.matmul.epilogue = epilogue;
  return spec;
}

class DotCall : public MatMulCall {
 public:
  DotCall(const Graph& graph, const GraphNode& node, const EpilogueSpec& epilogue)
      : operands_(node.inputs.size()),
        matmul_(MatMul::Shared(DotSpecOf(graph, node, epilogue))),
        scratch_(matmul_->scratch_bytes(ThreadPool::threads())) {}

  using MatMulCall::Run;
  int64_t scratch_bytes() const override { return scratch_; }
  void Run(std::span<const char* const> in, char* out, char* scratch,
           const Epilogue* epilogue) const override {
    matmul_->Run({.a = in[0],
                  .b = in[1],
                  .packed = PackedIn(in, operands_),
                  .out = out,
                  .epilogue = epilogue},
                 {reinterpret_cast<std::byte*>(scratch), static_cast<size_t>(scratch_)},
                 ThreadPool::Get());
  }
  const char* kernel() const override { return matmul_->kernel(); }
  PackedWeightSpec packed_weight() const override { return PackedWeightOf(*matmul_); }
  void PackWeight(const char* operand, char* packed) const override {
    matmul_->Pack(operand, packed, ThreadPool::Get());
  }

 private:
  const size_t operands_;  // without the packed weight
  const std::shared_ptr<const MatMul> matmul_;
  int64_t scratch_;
};

class ConvolutionCall : public MatMulCall {
 public:
  ConvolutionCall(const Graph& graph, const GraphNode& node, const EpilogueSpec& epilogue)
      : convolution_(SpecOf(graph, node, epilogue)),
        scratch_(convolution_.scratch_bytes(ThreadPool::threads())) {}

  using MatMulCall::Run;
  int64_t scratch_bytes() const override { return scratch_; }
  void Run(std::span<const char* const> in, char* out, char* scratch,
           const Epilogue* epilogue) const override {
    convolution_.Run({.input = in[0],
                      .weight = in[1],
                      .packed = PackedIn(in, 2),
                      .out = out,
                      .epilogue = epilogue},
                     {reinterpret_cast<std::byte*>(scratch), static_cast<size_t>(scratch_)},
                     ThreadPool::Get());
  }
  const char* kernel() const override { return convolution_.kernel(); }
  PackedWeightSpec packed_weight() const override { return PackedWeightOf(convolution_); }
  void PackWeight(const char* operand, char* packed) const override {
    convolution_.Pack(operand, packed, ThreadPool::Get());
  }

 private:
  static ConvolutionSpec SpecOf(const Graph& graph, const GraphNode& node,
                                const EpilogueSpec& epilogue) {
    ConvolutionSpec spec = ConvolutionSpecOf(graph, node);
    spec.epilogue = epilogue;
    return spec;
  }

  Convolution convolution_;
  int64_t scratch_;
};

}  // namespace

ConvolutionSpec ConvolutionSpecOf(const Graph& graph, const GraphNode& node) {
  bool layouts = node.op == &ops::kConvolutionLast;
  bool input_last = layouts && node.attr("input_last").boolean();
  const Shape& input = graph.TypeOf(node.inputs[0]);
  ConvolutionSpec spec = ConvolutionSpec::Of(
      input_last ? ops::WithChannelsFirst(input) : input, graph.TypeOf(node.inputs[1]),
      node.attr("stride").ints(), node.attr("padding").ints(), node.attr("dilation").ints(),
      node.attr("transposed").boolean(), node.attr("output_padding").ints(),
      node.attr("groups").integer());
  spec.out = spec.out.With(node.type().dtype());
  spec.input_last = input_last;
  spec.out_last = layouts && node.attr("result_last").boolean();
  return spec;
}

namespace {

/// A kernel of the reference backend.
class ReferenceCall : public Call {
 public:
  ReferenceCall(const Graph& graph, NodeId id)
      : graph_(graph), node_(graph[id]), kernel_(reference::FindKernel(*node_.op)) {
    for (const Attr& attr : node_.attrs) {
      if (attr.kind() == Attr::Kind::kGraph) nested_.emplace_back(attr.graph());
    }
  }

  void Run(std::span<const char* const> in, std::span<char* const> out, char*) const override {
    std::vector<HostTensor> tensors(in.size());
    std::vector<const HostTensor*> operands(in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      if (!node_.inputs[i].node) continue;
      static char nothing;  // an operand without elements may have no memory
      char* bytes = in[i] ? const_cast<char*>(in[i]) : &nothing;
      tensors[i] = HostTensor(graph_.TypeOf(node_.inputs[i]),
                              std::shared_ptr<void>(std::shared_ptr<void>(), bytes));
      operands[i] = &tensors[i];
    }
    std::vector<HostTensor> results(out.size());
    reference::Hooks hooks;
    reference::KernelCall call = {node_, operands, results, nested_, hooks};
    kernel_(call);
    for (size_t i = 0; i < out.size(); ++i) {
      if (results[i].bytes() > 0) {
        std::memcpy(out[i], results[i].data(), static_cast<size_t>(results[i].bytes()));
      }
    }
  }
  const char* kernel() const override { return "reference"; }

 private:
  const Graph& graph_;
  const GraphNode& node_;
  reference::Kernel kernel_;
  std::vector<reference::Program> nested_;
};

}  // namespace

namespace {

template <class T>
std::unique_ptr<Call> MakePlain(const Graph& graph, const GraphNode& node) {
  return std::make_unique<T>(graph, node, EpilogueSpec());
}

constexpr CallEntry kMatMuls[] = {{&ops::kDotGeneral, MakePlain<DotCall>},
                                  {&ops::kDotGeneralFused, MakePlain<DotCall>},
                                  {&ops::kConvolution, MakePlain<ConvolutionCall>},
                                  {&ops::kConvolutionLast, MakePlain<ConvolutionCall>}};

CallMaker FindMaker(const OpDef* op) {
  for (std::span<const CallEntry> family :
       {std::span<const CallEntry>(kMatMuls), AttentionCalls(), CollectiveCalls(), CopyCalls(),
        FftCalls(), IndexCalls(), OrderCalls(), PoolCalls(), QuantizedCalls(), ReduceCalls(),
        ControlCalls(), ElementCalls(), SparseCalls(), WeightBackwardCalls()}) {
    for (const CallEntry& entry : family) {
      if (entry.op == op) return entry.make;
    }
  }
  return nullptr;
}

}  // namespace

#ifndef HAMMOCK_WITH_ONEDNN
std::span<const CallEntry> WeightBackwardCalls() { return {}; }
bool RunsWholeWeightBackward(const Graph&, const GraphNode&) { return false; }
#endif

std::unique_ptr<Call> MakeCall(const Graph& graph, NodeId id) {
  if (CallMaker make = FindMaker(graph[id].op)) {
    if (std::unique_ptr<Call> call = make(graph, graph[id])) return call;
  }
  return MakeReferenceCall(graph, id);
}

bool GainsByNarrowOperands(const Graph& graph, const GraphNode& matmul) {
  return std::string_view(MatMul(DotSpecOf(graph, matmul, {})).kernel()) != "tiles";
}

bool RunsWhole(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  return RunsWholeAttention(graph, node) || node.op == &ops::kMergedCollective ||
         RunsWholePool(graph, node) || RunsWholeQuantized(graph, node) ||
         RunsWholeSparse(graph, node) || RunsWholeWeightBackward(graph, node);
}

std::unique_ptr<MatMulCall> MakeMatMulCall(const Graph& graph, NodeId id,
                                           const EpilogueSpec& epilogue) {
  const GraphNode& node = graph[id];
  if (node.op == &ops::kDotGeneral || node.op == &ops::kDotGeneralFused) {
    return std::make_unique<DotCall>(graph, node, epilogue);
  }
  HAMMOCK_CHECK(node.op == &ops::kConvolution || node.op == &ops::kConvolutionLast,
                "{} is no matmul or convolution", node.op->name());
  return std::make_unique<ConvolutionCall>(graph, node, epilogue);
}

std::unique_ptr<Call> MakeReferenceCall(const Graph& graph, NodeId id) {
  return std::make_unique<ReferenceCall>(graph, id);
}

}  // namespace hammock::cpu
