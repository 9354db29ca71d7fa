#include "backends/cuda/calls/calls.h"

#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/collectives.h"
#include "backends/cuda/emit/cuda_text.h"
#include "compiler/facts/fusion_facts.h"
#include "ir/primitives.h"
#include "ops/nn/quantize.h"
#include "ops/primitives/collectives.h"

namespace hammock::cuda {
namespace {

const CallEntry* FindEntry(const OpDef* op) {
  for (auto family :
       {AttentionCalls(), CollectiveCalls(), ConvolutionCalls(), CopyCalls(), ElementCalls(),
        FftCalls(), IndexCalls(), LoopCalls(), OrderCalls(), MatMulCalls(), QuantizedCalls(),
        ScanCalls(), ScatterCalls(), WindowCalls()}) {
    for (const CallEntry& entry : family) {
      if (entry.op == op) return &entry;
    }
  }
  return nullptr;
}

/// Reductions of the loop IR, and ops that become some (arg_reductions.h).
bool BecomesReduction(const OpDef* op) {
  return compiler::IsReduction(*op) || op == &ops::kArgMax || op == &ops::kArgMin;
}

bool IsTransform(const OpDef* op) {
  return op == &ops::kFftC2C || op == &ops::kFftR2C || op == &ops::kFftC2R;
}

}  // namespace

Grid ElementGrid(int64_t count) {
  return {.x = static_cast<unsigned>((count + 255) / 256), .block_x = 256};
}

Grid BlockGrid(int64_t count) { return {.x = static_cast<unsigned>(count), .block_x = 256}; }

std::string_view BytesType(int64_t bytes) {
  switch (bytes) {
    case 1:
      return "unsigned char";
    case 2:
      return "unsigned short";
    case 4:
      return "unsigned int";
    case 8:
      return "unsigned long long";
    default:
      return "Words<16>";
  }
}

std::unique_ptr<Call> MakeCall(const Graph& graph, NodeId id, const CallContext& context) {
  const CallEntry* entry = FindEntry(graph[id].op);
  return entry ? entry->make(graph, graph[id], context) : nullptr;
}

bool RunsWhole(const Graph& graph, const GraphNode& node) {
  const OpDef* op = node.op;
  return op == &ops::kConvolutionWeightBackward || op == &ops::kMaxWindowBackward ||
         op == &ops::kMergedCollective || RunsWholeQuantized(graph, node);
}

std::string WhyNot(const Graph& graph, NodeId id, const Machine* machine) {
  const GraphNode& node = graph[id];
  if (machine && IsTransform(node.op)) return machine->WhyNoTransforms();
  for (GraphValue input : node.inputs) {
    if (input.node && node.op != &ops::kBitcast && node.op != &ops::kQuantizedLinear &&
        InfoOf(graph.TypeOf(input).dtype()).bits % 8 != 0) {
      return "its operands have elements that are no bytes";
    }
  }
  if (node.op == &ops::kInput || compiler::IsView(node) || compiler::IsGenerated(node) ||
      compiler::IsPair(node) || BecomesReduction(node.op)) {
    return "";
  }
  if (compiler::IsPointwise(graph, node)) {
    if (node.op->scalar == ScalarFn::kNone || node.inputs.empty()) return "";
    DType dtype = graph.TypeOf(node.inputs[0]).dtype();
    if (HasText(node.op->scalar, dtype)) return "";
    return fmt::format("there is no function for {}", NameOf(dtype));
  }
  const CallEntry* entry = FindEntry(node.op);
  if (!entry) return "there is no kernel for it";
  return entry->why_not ? entry->why_not(graph, node) : "";
}

}  // namespace hammock::cuda
