// An imported model is a module as any other: delegates, archives and the explainer take it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "hammock/hammock.h"
#include "hammock/jit/to_backend.h"
#include "jit/toy_delegate.h"
#include "onnx/models.h"

namespace hammock::onnx {
namespace {

using namespace testing;  // NOLINT: the models

class OnnxModule : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_absent().empty()) GTEST_SKIP() << why_absent();
    jit::toy_available = true;
    jit::call_log.Take();
  }

  static Tensor Run(Module& module, const Tensor& x) {
    return module.run_method("forward", {x}).ToTensor();
  }
  /// Written and read.
  static ModulePtr Again(const Module& module) {
    std::string path = fmt::format("{}onnx_module_{}.hmk", ::testing::TempDir(), getpid());
    save_module(module, path);
    ModulePtr again = load_module(path);
    std::filesystem::remove(path);
    return again;
  }
  static size_t Executions() {
    const std::vector<std::string> calls = jit::call_log.Take();
    return static_cast<size_t>(std::ranges::count(calls, "execute"));
  }
};

/// y = (x + bias) * x
format::Model SumTimesInput() {
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kFloat, {{2, ""}}));
  graph.outputs.push_back(Info("y", format::kFloat, {{2, ""}}));
  graph.initializers.push_back(Initial<float>("bias", {10, 20}, {2}));
  graph.nodes = {Node("Add", {"x", "bias"}, {"sum"}), Node("Mul", {"sum", "x"}, {"y"})};
  return ModelOf(std::move(graph));
}

TEST_F(OnnxModule, IsLoweredToADelegate) {
  ModulePtr module = Load(SumTimesInput());
  trace(*module);
  ModulePtr lowered = jit::to_backend("toy", *module, {{"forward", AnyDict()}});
  Tensor x = tensor({1.0, 2.0});
  const std::vector<float> expected{11, 44};
  EXPECT_EQ(Run(*lowered, x).to_vector<float>(), expected);
  EXPECT_EQ(Executions(), 1u);
  EXPECT_EQ(Run(*Again(*lowered), x).to_vector<float>(), expected);
  EXPECT_EQ(Executions(), 1u);
}

/// The delegate takes the sum, and Hammock the rest.
TEST_F(OnnxModule, IsPartitioned) {
  ModulePtr module = Load(Linear());
  trace(*module, TraceSizes{.free = false});
  jit::Partitioned parts = jit::partition_to_backend("toy", *module, {{"forward", AnyDict()}});
  ASSERT_EQ(parts.placements.size(), 1u);
  EXPECT_EQ(parts.placements[0].regions, 1) << parts.placements[0].ToText();
  for (ModulePtr each : {parts.module, Again(*parts.module)}) {
    Executions();
    EXPECT_EQ(Run(*each, ones({2, 4}))[1].to_vector<float>(), (std::vector<float>{23, 0, 30}));
    EXPECT_EQ(Executions(), 1u);
  }
}

TEST_F(OnnxModule, ArchivesKeepNamesAndInputs) {
  ModulePtr module = Load(Linear());
  trace(*module);
  ModulePtr again = Again(*module);
  ASSERT_EQ(inputs(*again).size(), 1u);
  EXPECT_EQ(inputs(*again)[0].name, "x");
  EXPECT_EQ(outputs(*again)[0].name, "y");
  EXPECT_EQ(again->named_parameters()[0].first, "fc.weight");
  again->load_state_dict({{"fc.weight", zeros({4, 3})}, {"fc.bias", ones({3})}});
  EXPECT_EQ(Run(*again, ones({1, 4})).to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST_F(OnnxModule, IsExplained) {
  LazyGraphExecutor& executor = *LazyGraphExecutor::Get();
  executor.ClearComputationCache();
  format::Model model = Linear();
  Run(*Load(model), ones({2, 4})).host();
  const int64_t misses = executor.GetCacheStats().misses;
  Run(*Load(model), ones({2, 4})).host();  // read again: the same graph
  EXPECT_EQ(executor.GetCacheStats().misses, misses);
  model.graph.nodes.back().op = "Tanh";
  Run(*Load(model), ones({2, 4})).host();
  CompileMiss miss = executor.GetMisses().back();
  EXPECT_EQ(miss.kind, "op") << miss.ToText();
  EXPECT_NE(miss.detail.find("tanh"), std::string::npos) << miss.ToText();
  EXPECT_NE(miss.detail.find("relu"), std::string::npos) << miss.ToText();
}

}  // namespace
}  // namespace hammock::onnx
