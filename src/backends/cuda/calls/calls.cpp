#include "backends/cuda/calls/calls.h"

#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emit/scalar_text.h"
#include "compiler/loops/fusion_facts.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

const CallEntry* FindEntry(const OpDef* op) {
  for (auto family : {AttentionCalls(), ConvolutionCalls(), CopyCalls(), ElementCalls(),
                      IndexCalls(), LoopCalls(), OrderCalls(), MatMulCalls(), ReduceCalls(),
                      ScanCalls(), ScatterCalls(), WindowCalls()}) {
    for (const CallEntry& entry : family) {
      if (entry.op == op) return &entry;
    }
  }
  return nullptr;
}

bool IsReduction(const OpDef* op) {
  return op == &ops::kReduceSum || op == &ops::kReduceProd || op == &ops::kReduceMax ||
         op == &ops::kReduceMin || op == &ops::kReduceAny || op == &ops::kReduceAll;
}

KernelSource SourceOf(int arguments, const std::string& functions, const std::string& start,
                      const std::string& body, int resident = 1, int threads = 256) {
  std::string names;
  for (int i = 0; i < arguments; ++i) {
    names += fmt::format("  const unsigned long long w{0} = words.w[{0}];\n", i);
  }
  std::string bounds = std::to_string(threads);
  if (resident > 1) bounds += fmt::format(", {}", resident);
  std::string name = SourceName(functions + names + start + body + bounds);
  return {name, fmt::format("namespace {0}_parts {{\n{1}"
                            "struct {0}_words {{ unsigned long long w[{2}]; }};\n"
                            "extern \"C\" __global__ void __launch_bounds__({6}) {0}(const "
                            "{0}_words words) {{\n{3}{4}{5}}}\n}}\n",
                            name, functions, arguments, names, start, body, bounds)};
}

}  // namespace

KernelSource ElementKernel(int arguments, const std::string& functions, const std::string& body) {
  return SourceOf(arguments, functions,
                  "  const long long i = blockIdx.x * 256ll + threadIdx.x;\n"
                  "  if (i >= (long long)w0) return;\n",
                  body);
}

KernelSource BlockKernel(int arguments, const std::string& functions, const std::string& body,
                         int resident, int threads) {
  return SourceOf(arguments, functions, "  const long long block = blockIdx.x;\n", body, resident,
                  threads);
}

std::string BlockSumsText() {
  return R"(
__device__ inline unsigned sum_to_here(unsigned x, unsigned* sums, int t) {
  for (int step = 1; step < 32; step *= 2) {
    const unsigned other = shuffle_up(x, step);
    if (t % 32 >= step) x += other;
  }
  __syncthreads();
  if (t % 32 == 31) sums[t / 32] = x;
  __syncthreads();
  for (int warp = 0; warp < t / 32; ++warp) x += sums[warp];
  return x;
}
)";
}

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

std::string OffsetLines(int dims, int first, const std::string& i, const std::string& name,
                        bool few) {
  const char* type = few ? "unsigned" : "long long";
  std::string text =
      fmt::format("  long long {0} = 0;\n  {2} rest_of_{0} = ({2})({1});\n", name, i, type);
  for (int d = dims; d-- > 1;) {
    text += fmt::format(
        "  {0} += (long long)(rest_of_{0} % ({3})w{1}) * (long long)w{2}; rest_of_{0} /= "
        "({3})w{1};\n",
        name, first + d, first + dims + d, type);
  }
  // The coordinate of the first dim is the rest.
  if (dims > 0) {
    text += fmt::format("  {0} += (long long)rest_of_{0} * (long long)w{1};\n", name, first + dims);
  }
  return text;
}

std::unique_ptr<Call> MakeCall(const Graph& graph, NodeId id, const CallContext& context) {
  const CallEntry* entry = FindEntry(graph[id].op);
  return entry ? entry->make(graph, graph[id], context) : nullptr;
}

bool RunsWhole(const OpDef* op) {
  return op == &ops::kConvolutionWeightBackward || op == &ops::kMaxWindowBackward;
}

std::string WhyNot(const Graph& graph, NodeId id) {
  const GraphNode& node = graph[id];
  for (GraphValue input : node.inputs) {
    if (input.node >= 0 && InfoOf(graph.TypeOf(input).dtype()).bits % 8 != 0) {
      return "its operands have elements that are no bytes";
    }
  }
  if (node.op == &ops::kInput || compiler::IsView(node) || compiler::IsGenerated(node) ||
      IsReduction(node.op)) {
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
