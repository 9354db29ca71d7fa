// Random graphs on the emulated machine: each node against the interpreter within the bound of its
// op, and the whole against node by node, bit by bit. All kernels are compiled together first.
#include <gtest/gtest.h>

#include "backends/cuda/device/device_text.h"
#include "backends/cuda/driver/cuda_graph_cache.h"
#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/driver/noting_machine.h"
#include "backends/cuda/driver/nvrtc.h"
#include "backends/cuda/emulated.h"
#include "backends/reference/interpreter.h"
#include "fuzz/bounds.h"
#include "fuzz/generate.h"
#include "ir/primitives.h"
#include "support/seed_share.h"

namespace hammock::cuda {
namespace {

constexpr uint64_t kGraphs = 150;

/// A node alone, with inputs for its operands.
Graph Alone(const Graph& graph, const GraphNode& node) {
  Graph one;
  GraphNode copy = node;
  copy.inputs.Map([&](GraphValue input) {
    return !input.node ? GraphValue{} : one.AddInput(graph.TypeOf(input));
  });
  NodeId id = one.Append(copy);
  for (size_t i = 0; i < node.types.size(); ++i) one.AddOutput({id, static_cast<int32_t>(i)});
  return one;
}

bool CanRun(const Graph& graph) {
  for (NodeId id : graph.ids()) {
    if (!graph[id].op->IsPrimitive() || !WhyNot(graph, id).empty()) return false;
  }
  return true;
}

struct PreparedCase {
  uint64_t seed;
  fuzz::Case test;
  std::unique_ptr<Program> whole;
  std::vector<Graph> alone;                        // by node
  std::vector<std::unique_ptr<Program>> programs;  // by node; null for inputs
};

std::unique_ptr<PreparedCase> Prepare(uint64_t seed, const std::shared_ptr<Machine>& machine) {
  auto result = std::make_unique<PreparedCase>();
  result->seed = seed;
  result->test = fuzz::GenerateCase(seed);
  const Graph& graph = result->test.graph;
  if (!CanRun(graph)) return nullptr;
  // Half of them share as much memory as they can.
  int64_t spread = seed % 2 == 0 ? Program::kSpreadBytes : 0;
  result->whole = std::make_unique<Program>(graph, machine, spread);
  for (const GraphNode& node : graph.nodes()) {
    bool input = node.op == &ops::kInput;
    result->alone.push_back(input ? Graph() : Alone(graph, node));
    result->programs.push_back(input ? nullptr
                                     : std::make_unique<Program>(result->alone.back(), machine));
  }
  return result;
}

/// Counts it in `compared`, unless the interpreter refuses it.
void Check(const PreparedCase& prepared, Machine& machine, uint64_t& compared) {
  const Graph& graph = prepared.test.graph;
  NodeMap<std::vector<HostTensor>> values;
  size_t next_input = 0;
  for (NodeId id : graph.ids()) {
    const int i = id.number();
    if (!prepared.programs[i]) {
      values.push_back({prepared.test.inputs[next_input++]});
      continue;
    }
    std::vector<HostTensor> operands;
    for (GraphValue input : graph[id].inputs) {
      if (!input.node) continue;
      operands.push_back(values[input.node][input.index]);
    }
    std::vector<HostTensor> expected;
    try {
      expected = reference::Interpret(prepared.alone[i], operands);
    } catch (const Error&) {
      return;
    }
    values.push_back(RunProgram(machine, *prepared.programs[i], prepared.alone[i], operands));
    ASSERT_EQ(fuzz::CompareNode(prepared.alone[i], operands, values.back(), expected), "")
        << "seed " << prepared.seed << ", %" << id << " = " << graph[id].op->name() << " alone\n"
        << prepared.programs[i]->ToText("cuda");
  }
  for (int runs : {1, CudaGraphCache::kUsesBeforeCapture + 1}) {
    std::vector<HostTensor> results =
        RunProgram(machine, *prepared.whole, graph, prepared.test.inputs, runs);
    for (size_t i = 0; i < results.size(); ++i) {
      GraphValue output = graph.outputs()[i];
      ASSERT_EQ(fuzz::CompareBits(results[i], values[output.node][output.index]), "")
          << "seed " << prepared.seed << ", output " << i
          << (runs > 1 ? ", in a CUDA graph\n" : "\n") << prepared.whole->ToText("cuda");
    }
  }
  ++compared;
}

/// More than CI has time for: CUDA_FUZZ_GRAPHS=1000 SEED_SHARE=0/2 cuda_fuzz_tests
uint64_t GraphCount() {
  const char* count = std::getenv("CUDA_FUZZ_GRAPHS");
  return count ? std::strtoull(count, nullptr, 10) : kGraphs;
}

void ExpectRight(const std::shared_ptr<Machine>& machine, uint64_t graphs) {
  std::vector<std::unique_ptr<PreparedCase>> cases;
  uint64_t mine = 0, compared = 0;
  for (uint64_t seed = 1; seed <= graphs; ++seed) {
    if (!IsMySeed(seed)) continue;
    ++mine;
    if (auto prepared = Prepare(seed, machine)) cases.push_back(std::move(prepared));
  }
  for (const auto& prepared : cases) {
    Check(*prepared, *machine, compared);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(compared, mine / 3);
}

TEST(CudaFuzz, EmulatedGraphsAreRight) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  auto machine = std::make_shared<NotingMachine>(EmulatedForTests());
  ExpectRight(machine, GraphCount());
  EXPECT_GT(machine->replayed, 0);
}

TEST(CudaFuzz, GraphsAreRightOnAGpu) {
  if (!WhyNoGpu().empty()) GTEST_SKIP() << WhyNoGpu();
  ExpectRight(MakeGpuMachine(0), GraphCount());
}

/// All kernels of some graphs as one module.
TEST(CudaFuzz, KernelsAreCompiledByNvrtc) {
  if (!WhyNoNvrtc().empty()) GTEST_SKIP() << WhyNoNvrtc();
  std::map<std::string, std::string> texts;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    fuzz::Case test = fuzz::GenerateCase(seed);
    if (!CanRun(test.graph)) continue;
    for (const KernelSource& source : Program(test.graph, EmulatedForTests()).Sources()) {
      texts[source.name] = source.text;
    }
  }
  std::string module = Prelude();
  for (const auto& [name, text] : texts) module += text;
  EXPECT_GT(CompileByNvrtc(module, 90).size(), 1000u);
}

}  // namespace
}  // namespace hammock::cuda
