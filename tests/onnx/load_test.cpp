#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "hammock/autograd.h"
#include "hammock/hammock.h"
#include "hammock/ir/graph.h"
#include "onnx/models.h"

namespace hammock::onnx {
namespace {

using namespace testing;  // NOLINT: the models

class OnnxLoad : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_absent().empty()) GTEST_SKIP() << why_absent();
  }
};

/// Tests may run at the same time, in several processes.
std::string TempPath(const std::string& name) {
  return fmt::format("{}{}_{}", ::testing::TempDir(), getpid(), name);
}

Tensor Call(Module& module, const std::vector<Any>& args) {
  return module.run_method("forward", args).ToTensor();
}

TEST_F(OnnxLoad, InitialisersAreParametersUnderTheirNames) {
  ModulePtr module = Load(Linear());
  NamedTensors parameters = module->named_parameters();
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].first, "fc.weight");
  EXPECT_EQ(parameters[1].first, "fc.bias");
  EXPECT_EQ(module->get_tensor("fc.weight").sizes(), (Dims{4, 3}));
}

TEST_F(OnnxLoad, ForwardComputesAtAnySize) {
  ModulePtr module = Load(Linear());
  for (int64_t batch : {1, 2, 5}) {
    Tensor y = Call(*module, {ones({batch, 4})});
    EXPECT_EQ(y.sizes(), (Dims{batch, 3}));
    EXPECT_EQ(y[0].to_vector<float>(), (std::vector<float>{23, 0, 30}));
  }
}

TEST_F(OnnxLoad, OtherWeightsGiveOtherResults) {
  ModulePtr module = Load(Linear());
  module->load_state_dict({{"fc.weight", zeros({4, 3})}, {"fc.bias", ones({3})}});
  EXPECT_EQ(Call(*module, {ones({1, 4})}).to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST_F(OnnxLoad, GradientsReachTheParameters) {
  ModulePtr module = Load(Linear());
  sum(Call(*module, {ones({2, 4})})).backward();
  EXPECT_EQ(module->get_tensor("fc.bias").grad().to_vector<float>(), (std::vector<float>{2, 0, 2}));
}

TEST_F(OnnxLoad, SymbolicDimsAreFreeInTheGraph) {
  ModulePtr module = Load(Linear());
  trace(*module);
  const GraphBody& body = module->graph_body("forward");
  EXPECT_EQ(body.graph->dim_params.size(), 1u);
  EXPECT_EQ(Call(*module, {ones({7, 4})}).sizes(), (Dims{7, 3}));
  std::string path = TempPath("onnx_linear.hmk");
  save_module(*module, path);
  ModulePtr again = load_module(path);
  EXPECT_EQ(Call(*again, {ones({3, 4})})[2].to_vector<float>(), (std::vector<float>{23, 0, 30}));
  std::filesystem::remove(path);
}

TEST_F(OnnxLoad, DeclaresItsInputs) {
  ModulePtr module = Load(Linear());
  std::vector<DeclaredValue> declared = inputs(*module);
  ASSERT_EQ(declared.size(), 1u);
  EXPECT_EQ(declared[0].name, "x");
  EXPECT_EQ(declared[0].dtype, DType::kF32);
  EXPECT_EQ(declared[0].dims[0].name, "batch");
  EXPECT_EQ(declared[0].dims[1].size, 4);
  EXPECT_EQ(outputs(*module)[0].name, "y");
}

/// y = predicate ? x + 1 : x * 2
format::Model Choice() {
  auto branch = [](const char* op, float number) {
    format::Graph graph;
    graph.initializers.push_back(Initial<float>(std::string(op) + "_by", {number}, {}));
    graph.nodes.push_back(Node(op, {"x", std::string(op) + "_by"}, {std::string(op) + "_out"}));
    graph.outputs.push_back(Info(std::string(op) + "_out", format::kFloat, {{2, ""}}));
    return graph;
  };
  format::Graph graph;
  graph.inputs = {Info("predicate", format::kBool, {}), Info("x", format::kFloat, {{2, ""}})};
  graph.outputs.push_back(Info("y", format::kFloat, {{2, ""}}));
  graph.nodes.push_back(Node("If", {"predicate"}, {"y"},
                             {GraphAttribute("then_branch", branch("Add", 1)),
                              GraphAttribute("else_branch", branch("Mul", 2))}));
  return ModelOf(std::move(graph));
}

TEST_F(OnnxLoad, IfBecomesCond) {
  ModulePtr module = Load(Choice());
  Tensor x = tensor({3.0, 4.0});
  EXPECT_EQ(Call(*module, {tensor(true), x}).to_vector<float>(), (std::vector<float>{4, 5}));
  EXPECT_EQ(Call(*module, {tensor(false), x}).to_vector<float>(), (std::vector<float>{6, 8}));
  trace(*module);
  EXPECT_NE(ToText(*module->graph_body("forward").graph).find("cond"), std::string::npos);
  EXPECT_EQ(Call(*module, {tensor(false), x}).to_vector<float>(), (std::vector<float>{6, 8}));
}

TEST_F(OnnxLoad, FixedInputsAreNoArguments) {
  LoadOptions options;
  options.fixed["predicate"] = HostTensor::From(Scalar(true));
  ModulePtr module = Load(Choice(), options);
  ASSERT_EQ(inputs(*module).size(), 1u);
  EXPECT_EQ(Call(*module, {tensor({3.0, 4.0})}).to_vector<float>(), (std::vector<float>{4, 5}));
  trace(*module);
  EXPECT_EQ(ToText(*module->graph_body("forward").graph).find("cond"), std::string::npos);
  options.fixed["nobody"] = HostTensor::From(Scalar(1));
  EXPECT_THROW(Load(Choice(), options), ValueError);
}

/// Doubles x until it is at least `limit`, at most ten times.
format::Model Doubling() {
  format::Graph body;
  body.inputs = {Info("i", format::kInt64, {}), Info("go", format::kBool, {}),
                 Info("before", format::kFloat, {})};
  body.nodes.push_back(Node("Add", {"before", "before"}, {"after"}));
  body.nodes.push_back(Node("Less", {"after", "limit"}, {"more"}));
  body.outputs = {Info("more", format::kBool, {}), Info("after", format::kFloat, {})};
  format::Graph graph;
  graph.inputs = {Info("x", format::kFloat, {}), Info("limit", format::kFloat, {})};
  graph.outputs.push_back(Info("y", format::kFloat, {}));
  graph.initializers.push_back(Initial<int64_t>("most", {10}, {}));
  graph.nodes.push_back(
      Node("Loop", {"most", "", "x"}, {"y"}, {GraphAttribute("body", std::move(body))}));
  return ModelOf(std::move(graph));
}

TEST_F(OnnxLoad, LoopThatStopsByAValueBecomesWhile) {
  ModulePtr module = Load(Doubling());
  EXPECT_EQ(Call(*module, {tensor(1.0), tensor(50.0)}).item<float>(), 64);
  EXPECT_EQ(Call(*module, {tensor(1.0), tensor(1e9)}).item<float>(), 1024);
  trace(*module);
  EXPECT_NE(ToText(*module->graph_body("forward").graph).find("while"), std::string::npos);
  EXPECT_EQ(Call(*module, {tensor(3.0), tensor(20.0)}).item<float>(), 24);
}

TEST_F(OnnxLoad, SizesThatDependOnValuesAreRead) {
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kFloat, {{-1, "n"}}));
  graph.outputs.push_back(Info("y", format::kInt64, {{1, ""}, {-1, ""}}));
  graph.nodes.push_back(Node("NonZero", {"x"}, {"y"}));
  ModulePtr module = Load(ModelOf(std::move(graph)));
  EXPECT_EQ(Call(*module, {tensor({0.0, 2.0, 0.0, 3.0})}).to_vector<int64_t>(),
            (std::vector<int64_t>{1, 3}));
}

TEST_F(OnnxLoad, FunctionsOfTheFileAreCalled) {
  format::Model model = Linear();
  format::Function function;
  function.name = "Twice";
  function.domain = "own";
  function.inputs = {"a"};
  function.outputs = {"b"};
  function.nodes.push_back(Node("Add", {"a", "a"}, {"b"}));
  function.opsets.push_back({"", 21});
  model.functions.push_back(function);
  model.graph.nodes.back().op = "Twice";
  model.graph.nodes.back().domain = "own";
  ModulePtr module = Load(model);
  EXPECT_EQ(Call(*module, {ones({1, 4})}).to_vector<float>(), (std::vector<float>{46, -148, 60}));
  Tensor twice = module->run_method("own_Twice", {tensor({1.0, 2.0})}).ToTensor();
  EXPECT_EQ(twice.to_vector<float>(), (std::vector<float>{2, 4}));
}

TEST_F(OnnxLoad, OneErrorListsAllMissingOperators) {
  format::Model model = Linear();
  model.graph.nodes.push_back(Node("Frobnicate", {"y"}, {"z"}));
  model.graph.nodes.push_back(Node("Gyrate", {"y"}, {"u"}));
  model.graph.nodes.push_back(Node("Gyrate", {"z"}, {"v"}));
  try {
    Load(model);
    FAIL() << "it was loaded";
  } catch (const NotSupported& error) {
    EXPECT_NE(error.message().find("2 operators are not supported"), std::string::npos);
    EXPECT_NE(error.message().find("Frobnicate (opset 21) in Frobnicate_z"), std::string::npos);
    EXPECT_NE(error.message().find("Gyrate (opset 21) in Gyrate_u, Gyrate_v"), std::string::npos);
  }
}

TEST_F(OnnxLoad, ExternalDataIsMapped) {
  std::string folder = TempPath("onnx_external");
  std::filesystem::create_directories(folder);
  format::Model model = Linear();
  format::Tensor& weight = model.graph.initializers[0];
  std::ofstream(folder + "/weights.bin", std::ios::binary) << std::string(64, 'x') << weight.bytes;
  weight.external = true;
  weight.external_data = {{"location", "weights.bin"}, {"offset", "64"}, {"length", "48"}};
  weight.bytes.clear();
  std::ofstream(folder + "/model.onnx", std::ios::binary) << Bytes(model);
  ModulePtr module = load(folder + "/model.onnx");
  EXPECT_EQ(Call(*module, {ones({1, 4})}).to_vector<float>(), (std::vector<float>{23, 0, 30}));
  module.reset();
  std::filesystem::remove_all(folder);
}

/// The file has a hole: it takes no room, and only the rows that are gathered are read.
TEST_F(OnnxLoad, ModelsOfMoreThanTwoGigabytes) {
  constexpr int64_t kColumns = 1 << 16, kRows = 9 << 10;  // 2.25 GiB
  std::string folder = TempPath("onnx_large");
  std::filesystem::create_directories(folder);
  {
    std::ofstream data(folder + "/weights.bin", std::ios::binary);
    const float last = 3;
    data.seekp(kColumns * kRows * 4 - 4);
    data.write(reinterpret_cast<const char*>(&last), 4);
  }
  format::Graph graph;
  graph.inputs.push_back(Info("rows", format::kInt64, {{-1, "n"}}));
  graph.outputs.push_back(Info("y", format::kFloat, {{-1, "n"}}));
  format::Tensor table;
  table.name = "table";
  table.element = format::kFloat;
  table.dims = {kRows, kColumns};
  table.external = true;
  table.external_data = {{"location", "weights.bin"}};
  graph.initializers = {table};
  graph.nodes = {Node("Gather", {"table", "rows"}, {"gathered"}),
                 Node("ReduceSum", {"gathered"}, {"y"}, {IntAttribute("keepdims", 0)})};
  std::ofstream(folder + "/model.onnx", std::ios::binary) << Bytes(ModelOf(std::move(graph)));
  ModulePtr module = load(folder + "/model.onnx");
  EXPECT_EQ(Call(*module, {tensor({int64_t{0}, kRows - 1}, i64)}).item<float>(), 3);
  module.reset();
  std::filesystem::remove_all(folder);
}

TEST_F(OnnxLoad, TheTableIsListed) {
  std::vector<OperatorRange> rows = operators();
  EXPECT_GT(rows.size(), 150u);
  for (const OperatorRange& row : rows) EXPECT_LE(row.since, row.until) << row.name;
}

}  // namespace
}  // namespace hammock::onnx
