#include "compiler/loops/rematerialise.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/passes/cuda_passes.h"
#include "backends/reference/interpreter.h"
#include "base/log.h"
#include "hammock/compiler/describe_schedule.h"
#include "hammock/compiler/memory_plan.h"
#include "hammock/config.h"
#include "hammock/inspect.h"
#include "hammock/metrics.h"

namespace hammock::compiler {
namespace {

/// Of intermediate values.
int64_t PeakOf(const Schedule& schedule) {
  return PlanMemory(schedule, std::vector<int64_t>(schedule.commands.size())).arena_bytes;
}

int64_t PeakOf(const Graph& graph) { return PeakOf(MakeSchedule(graph)); }

constexpr const char* kDot = "{a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]}";

/// A network and its gradients: activations, which are cheap, and matmuls, which are not, are both
/// read on the way back.
Graph Network(int layers) {
  std::string text = "%0 = input : f32[256,16]\n%1 = input : f32[16,16]\n";
  int next = 2;
  auto add = [&](const std::string& node, const char* type) {
    text += fmt::format("%{} = {} : {}\n", next, node, type);
    return next++;
  };
  std::vector<int> sums, values = {0};
  for (int i = 0; i < layers; ++i) {
    sums.push_back(add(fmt::format("dot_general %{}, %1 {}", values.back(), kDot), "f32[256,16]"));
    values.push_back(add(fmt::format("sin %{}", sums.back()), "f32[256,16]"));
  }
  int gradient = values.back();
  std::string outputs;
  for (int i = layers; i-- > 0;) {
    const int slope = add(fmt::format("cos %{}", sums[i]), "f32[256,16]");
    gradient = add(fmt::format("mul %{}, %{}", gradient, slope), "f32[256,16]");
    const int weight = add(fmt::format("dot_general %{}, %{} {{a_contract=[0], b_contract=[0], "
                                       "a_batch=[], b_batch=[]}}",
                                       values[i], gradient),
                           "f32[16,16]");
    outputs += fmt::format("{}%{}", outputs.empty() ? "" : ", ", weight);
    gradient = add(fmt::format("dot_general %{}, %1 {}", gradient, kDot), "f32[256,16]");
  }
  return ParseGraph(text + "return " + outputs);
}

std::vector<HostTensor> ValuesOf(const Graph& graph) {
  std::vector<HostTensor> inputs;
  for (NodeId id : graph.inputs()) {
    inputs.emplace_back(graph[id].type());
    float number = 0;
    for (float& value : inputs.back().mutable_values<float>()) value = (number += 0.37f) - 40;
  }
  return reference::Interpret(graph, inputs);
}

void ExpectSameBits(const Graph& a, const Graph& b) {
  const std::vector<HostTensor> expected = ValuesOf(a), actual = ValuesOf(b);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(std::memcmp(actual[i].data(), expected[i].data(), expected[i].bytes()), 0);
  }
}

TEST(Rematerialise, ComputesAgainWhereAValueIsUsedLate) {
  Graph before = ParseGraph(R"(
    %0 = input : f32[32,32]
    %1 = input : f32[32,32]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[32,32]
    %3 = sin %2 : f32[32,32]
    %4 = dot_general %3, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[32,32]
    %5 = sin %4 : f32[32,32]
    %6 = dot_general %5, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[32,32]
    %7 = mul %6, %2 : f32[32,32]
    %8 = dot_general %3, %7 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[32,32]
    return %8)");
  Graph after = Rematerialise(before, {.fraction = 0.8}, /*epilogues=*/true);
  EXPECT_EQ(ToText(after), ToText(ParseGraph(R"(
    %0 = input : f32[32,32]
    %1 = input : f32[32,32]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[32,32]
    %3 = sin %2 : f32[32,32]
    %4 = dot_general %3, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[32,32]
    %5 = sin %4 : f32[32,32]
    %6 = dot_general %5, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[32,32]
    %7 = mul %6, %2 : f32[32,32]
    %8 = barrier %2 : f32[32,32]
    %9 = sin %8 : f32[32,32]
    %10 = dot_general %9, %7 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[32,32]
    return %10)")));
  EXPECT_LE(PeakOf(after), 0.8 * static_cast<double>(PeakOf(before)));
  ExpectSameBits(before, after);
}

TEST(Rematerialise, LeavesGraphsWithinTheBudgetAsTheyAre) {
  const Graph graph = Network(4);
  EXPECT_EQ(Rematerialise(graph, {.bytes = PeakOf(graph)}, true), graph);
}

TEST(Rematerialise, HoldsTheBudgetWithTheSameBits) {
  const Graph graph = Network(24);
  const int64_t peak = PeakOf(graph);
  for (double fraction : {0.9, 0.75, 0.6}) {
    const Graph within = Rematerialise(graph, {.fraction = fraction}, true);
    EXPECT_LE(PeakOf(within), fraction * static_cast<double>(peak)) << fraction;
    ExpectSameBits(graph, within);
  }
}

TEST(Rematerialise, RecomputesNoMoreThanItNeeds) {
  const Graph graph = Network(24);
  const size_t few = FindRecomputation(Rematerialise(graph, {.fraction = 0.9}, true)).nodes.size();
  const size_t many = FindRecomputation(Rematerialise(graph, {.fraction = 0.6}, true)).nodes.size();
  EXPECT_GT(few, 0u);
  EXPECT_LT(few, many / 2);
}

TEST(Rematerialise, ComputesAChainAgainFromWhatIsKept) {
  // The last value needs the one before it, which is not kept either.
  Graph graph = ParseGraph(R"(
    %0 = input : f32[64,64]
    %1 = input : f32[64,64]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %3 = sin %0 : f32[64,64]
    %4 = dot_general %3, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %5 = sin %3 : f32[64,64]
    %6 = dot_general %5, %4 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %7 = sin %6 : f32[64,64]
    %8 = dot_general %7, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %9 = dot_general %8, %5 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %10 = dot_general %9, %3 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %11 = reduce_sum %10 {dims=[1], keepdim=false} : f32[64]
    return %11)");
  const Graph after = Rematerialise(graph, {.bytes = 2}, true);
  EXPECT_LT(PeakOf(after), PeakOf(graph));
  ExpectSameBits(graph, after);
}

TEST(Rematerialise, LeavesWhatHasAnEffectOrIsNotCheap) {
  const Graph graph = ParseGraph(R"(
    %0 = input : f32[64,64]
    %1 = all_reduce %0 {reduction="sum", group="g", size=2} : f32[64,64]
    %2 = dot_general %1, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %3 = dot_general %2, %2 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %4 = dot_general %3, %3 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %5 = dot_general %4, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    return %5)");
  EXPECT_EQ(Rematerialise(graph, {.bytes = 2}, true), graph);
}

TEST(Rematerialise, DrawsTheSameRandomBitsAgain) {
  const Graph graph = ParseGraph(R"(
    %0 = input : u64[2]
    %1 = input : f32[64,64]
    %2 = rng_bits %0 {sizes=[64,64]} : u32[64,64]
    %3 = cast %2 {dtype=f32} : f32[64,64]
    %4 = mul %3, %1 : f32[64,64]
    %5 = dot_general %4, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %6 = dot_general %5, %5 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %7 = dot_general %6, %6 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[64,64]
    %8 = mul %7, %3 : f32[64,64]
    return %8)");
  const Graph after = Rematerialise(graph, {.fraction = 0.8}, true);
  EXPECT_NE(ToText(after).find("barrier %0"), std::string::npos) << ToText(after);
  EXPECT_LT(PeakOf(after), PeakOf(graph));
}

TEST(Rematerialise, SaysOnceThatABudgetCannotBeMet) {
  config::Override budget("memory_budget", "1KiB");
  const std::vector<Pass> passes = RematerialisePasses(true);
  ASSERT_EQ(passes.size(), 1u);
  LogCapture log;
  const int64_t missed = metrics::CounterValue("MemoryBudgetMissed").value_or(0);
  for (int i = 0; i < 2; ++i) RunPasses(passes, Network(3));
  const std::string text = log.text();
  const size_t first = text.find("memory_budget: values of a step are planned to take");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("memory_budget:", first + 1), std::string::npos) << text;
  EXPECT_NE(text.find("the budget is 1024 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("f32[256,16] of"), std::string::npos) << text;
  EXPECT_EQ(metrics::CounterValue("MemoryBudgetMissed"), missed + 2);
}

TEST(Rematerialise, TellsWhatABudgetMayBe) {
  for (const char* good : {"", "0.5", "1", "1500000", "800MiB", "1.5GiB"}) {
    EXPECT_NO_THROW(config::Override("memory_budget", good)) << good;
  }
  for (const char* bad : {"half", "-1", "0", "0.5x", "1.5GB", "1e40GiB"}) {
    try {
      config::Set("memory_budget", bad);
      ADD_FAILURE() << bad;
    } catch (const ValueError& error) {
      EXPECT_NE(error.message().find("a fraction as 0.5"), std::string::npos);
    }
  }
}

// The plans of the backends, with what their own passes do.
TEST(Rematerialise, LowersThePeakOfCompiledBackends) {
  constexpr int kLayers = 60;
  const Graph graph = Network(kLayers);
  auto cpu = [&] {
    return DescribeCompiled(graph, "cpu")[0].info.peak_bytes - kLayers * 16 * 16 * 4;  // results
  };
  auto cuda = [&] { return PeakOf(cuda::ScheduleForCuda(cuda::RewriteForCuda(graph))); };
  const int64_t cpu_peak = cpu(), cuda_peak = cuda();
  config::Override budget("memory_budget", "0.7");
  // Own matmuls have scratch memory, which is chosen after the pass.
  EXPECT_LE(cpu(), 72 * cpu_peak / 100);
  EXPECT_LE(cuda(), 7 * cuda_peak / 10);
}

TEST(FindRecomputation, CountsNodesFlopsAndBytes) {
  const Graph graph = Network(24);
  EXPECT_TRUE(FindRecomputation(graph).nodes.empty());
  const Graph after = Rematerialise(graph, {.fraction = 0.7}, true);
  const Recomputation found = FindRecomputation(after);
  ASSERT_FALSE(found.nodes.empty());
  int64_t sines = 0;
  for (NodeId id : found.nodes) sines += after[id].op->name() == std::string_view("sin");
  EXPECT_EQ(sines, static_cast<int64_t>(found.nodes.size()));
  EXPECT_EQ(found.flops, sines * InfoOf(ScalarFn::kSin).cost * 256 * 16);
  EXPECT_EQ(found.saved_bytes, PeakOf(graph) - PeakOf(after));
}

}  // namespace
}  // namespace hammock::compiler
