#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "hammock/autograd.h"
#include "hammock/hammock.h"
#include "hammock/ir/graph.h"
#include "ir/expect_error.h"
#include "onnx/models.h"
#include "support/source_path.h"

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

/// Ops have the line of the call, in the node of the file.
TEST_F(OnnxLoad, NodesAreInLocations) {
  ModulePtr module = Load(Linear());
  trace(*module);
  const Graph& graph = *module->graph_body("forward").graph;
  std::string relu;
  for (NodeId id : graph.ids()) {
    if (graph[id].op->name() == std::string_view("relu")) relu = WhereText(graph[id].location);
  }
  EXPECT_TRUE(relu.ends_with("Relu_y")) << relu;
  EXPECT_TRUE(relu.starts_with("load_test.cpp:")) << relu;
}

TEST_F(OnnxLoad, ErrorsOfRunsNameTheNode) {
  format::Graph graph;
  graph.inputs = {Info("x", format::kFloat, {{2, ""}}), Info("at", format::kInt64, {{1, ""}})};
  graph.outputs = {Info("y", format::kFloat, {{1, ""}})};
  graph.nodes = {Node("Gather", {"x", "at"}, {"y"})};
  ModulePtr module = Load(ModelOf(std::move(graph)));
  try {
    Call(*module, {ones({2}), tensor({5}, i64)}).host();
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_TRUE(error.where().ends_with(" in Gather_y")) << error.what();
  }
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

/// A branch that cannot be traced is left in the middle of a function of an older opset: the
/// nodes behind it have the opset of their own graph.
TEST_F(OnnxLoad, OpsetsOfFunctionsEndWithThem) {
  auto branch = [](const std::string& name) {
    format::Graph graph;
    graph.nodes = {Node("Count", {"x"}, {name})};
    graph.nodes[0].domain = "own";
    graph.outputs = {Info(name, format::kInt64, {})};
    return graph;
  };
  format::Graph graph;
  graph.inputs = {Info("predicate", format::kBool, {}),
                  Info("x", format::kFloat, {{2, ""}, {2, ""}, {2, ""}})};
  graph.outputs = {Info("n", format::kInt64, {}), Info("y", format::kFloat, {})};
  graph.nodes = {Node("If", {"predicate"}, {"n"},
                      {GraphAttribute("then_branch", branch("a")),
                       GraphAttribute("else_branch", branch("b"))}),
                 Node("Softmax", {"x"}, {"y"})};
  format::Model model = ModelOf(std::move(graph), 13);
  model.opsets.push_back({"own", 1});
  format::Function count;
  count.name = "Count";
  count.domain = "own";
  count.inputs = {"a"};
  count.outputs = {"b"};
  count.nodes = {Node("NonZero", {"a"}, {"b"})};  // its size depends on values
  count.opsets.push_back({"", 11});
  model.functions.push_back(count);
  Any result = Load(model)->run_method("forward", {tensor(true), zeros({2, 2, 2})});
  EXPECT_EQ(result.ToList()[1].ToTensor().to_vector<float>(), std::vector<float>(8, 0.5f));
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

/// A function that gives 2x where `choose` is true, else what `otherwise` computes of x.
format::Model Branching(std::vector<format::Node> otherwise) {
  auto branch = [](std::vector<format::Node> nodes) {
    format::Graph graph;
    graph.initializers = {Initial<float>("two", {2}, {})};
    graph.outputs = {Info(nodes.back().outputs[0], format::kFloat, {})};
    graph.nodes = std::move(nodes);
    return graph;
  };
  format::Function function;
  function.name = "Choose";
  function.domain = "own";
  function.inputs = {"choose", "x"};
  function.outputs = {"y"};
  function.opsets = {{"", 21}};
  function.nodes = {Node("If", {"choose"}, {"y"},
                         {GraphAttribute("then_branch", branch({Node("Mul", {"x", "two"}, {"a"})})),
                          GraphAttribute("else_branch", branch(std::move(otherwise)))})};
  format::Graph graph;
  graph.inputs = {Info("choose", format::kBool, {}), Info("x", format::kFloat, {})};
  graph.outputs = {Info("y", format::kFloat, {})};
  graph.nodes = {Node("Choose", {"choose", "x"}, {"y"})};
  graph.nodes[0].domain = "own";
  format::Model model = ModelOf(std::move(graph));
  model.functions = {function};
  return model;
}

TEST_F(OnnxLoad, BranchesInFunctions) {
  ModulePtr module = Load(Branching({Node("Neg", {"x"}, {"b"})}));
  EXPECT_EQ(Call(*module, {tensor(true), tensor(3.0)}).item<float>(), 6);
  EXPECT_EQ(Call(*module, {tensor(false), tensor(3.0)}).item<float>(), -3);
}

TEST_F(OnnxLoad, FunctionsAreChecked) {
  auto expect = [](const format::Model& model, const std::string& text) {
    EXPECT_ERROR(Load(model), Error, text);
  };
  expect(Branching({Node("Frobnicate", {"x"}, {"b"})}), "Frobnicate (opset 21) in Frobnicate_b");
  expect(Branching({Node("Neg", {"nobody"}, {"b"})}),
         "node 'Neg_b' (Neg) of function 'Choose' uses 'nobody', which no input");
  format::Model model = Branching({Node("Neg", {"x"}, {"b"})});
  model.functions[0].outputs = {"z"};
  expect(model, "nothing in the function 'Choose' computes 'z'");
  model.functions[0].outputs = {"y"};
  model.graph.nodes[0].inputs.push_back("x");
  expect(model, "node 'Choose_y' (own.Choose) has 3 inputs and 1 outputs, the function 2 and 1");
  model.graph.nodes[0].inputs.pop_back();
  model.functions[0].nodes.insert(model.functions[0].nodes.begin(), Node("Neg", {"y"}, {"z"}));
  expect(model, "of function 'Choose' uses 'y', which a later node computes");
}

TEST_F(OnnxLoad, OperatorsOfFunctionsAreDescribedByTheirOpsets) {
  format::Model model = Branching({Node("Upsample", {"x"}, {"b"})});
  model.functions[0].opsets = {{"", 9}};  // the last one that has it
  const std::string path = TempPath("described.onnx");
  std::ofstream(path, std::ios::binary) << Bytes(model);
  EXPECT_EQ(describe(path).find("missing"), std::string::npos) << describe(path);
  std::filesystem::remove(path);
}

/// [[0, 5, 0], [7, 0, 0]], by coordinates or by positions.
format::Model Sparse(std::vector<int64_t> indices, std::vector<int64_t> sizes) {
  format::Graph graph;
  graph.inputs = {Info("x", format::kFloat, {{2, ""}, {3, ""}})};
  graph.outputs = {Info("y", format::kFloat, {{2, ""}, {3, ""}})};
  graph.sparse_initializers = {{Initial<float>("w", {5, 7}, {2}),
                                Initial<int64_t>("at", indices, std::move(sizes)),
                                {2, 3}}};
  graph.nodes = {Node("Add", {"x", "w"}, {"y"})};
  return ModelOf(std::move(graph));
}

TEST_F(OnnxLoad, SparseInitialisers) {
  for (const format::Model& model : {Sparse({1, 3}, {2}), Sparse({0, 1, 1, 0}, {2, 2})}) {
    EXPECT_EQ(Call(*Load(model), {zeros({2, 3})}).to_vector<float>(),
              (std::vector<float>{0, 5, 0, 7, 0, 0}));
  }
  for (const format::Model& model :
       {Sparse({1, 6}, {2}), Sparse({-1, 1}, {2}), Sparse({0, 1, 1, -1}, {2, 2}),
        Sparse({0, 3, 1, 0}, {2, 2}), Sparse({0, 1, 2, 0}, {2, 2})}) {
    EXPECT_ERROR(Load(model), ValueError, "outside of f32[2,3]");
  }
  EXPECT_ERROR(Load(Sparse({0, 1, 1}, {3})), ValueError, "has 2 values and indices i64[3]");
  format::Model large = Sparse({1, 3}, {2});
  large.graph.sparse_initializers[0].dims = {1 << 20, 1 << 20};
  EXPECT_ERROR(Load(large), NotSupported, "at most 268435456 elements");
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

TEST_F(OnnxLoad, LabelEncoderOfTheFirstVersion) {
  format::Attribute classes;
  classes.name = "classes_strings";
  classes.kind = format::Attribute::kStrings;
  classes.strings = {"cat", "dog"};
  format::Attribute otherwise;
  otherwise.name = "default_string";
  otherwise.kind = format::Attribute::kString;
  otherwise.s = "bird";
  format::Graph graph;
  graph.inputs = {Info("name", format::kString, {{3, ""}}),
                  Info("index", format::kInt64, {{3, ""}})};
  graph.outputs = {Info("i", format::kInt64, {{3, ""}}), Info("s", format::kString, {{3, ""}})};
  graph.nodes = {Node("LabelEncoder", {"name"}, {"i"}, {classes, IntAttribute("default_int64", 7)}),
                 Node("LabelEncoder", {"index"}, {"s"}, {classes, otherwise})};
  for (format::Node& node : graph.nodes) node.domain = "ai.onnx.ml";
  format::Model model = ModelOf(std::move(graph));
  model.opsets.push_back({"ai.onnx.ml", 1});
  Any result = Load(model)->run_method(
      "forward",
      {AnyList{"dog", "fish", "cat"}, tensor({int64_t{1}, int64_t{0}, int64_t{2}}, i64)});
  const AnyList& results = result.ToList();
  EXPECT_EQ(results[0].ToTensor().to_vector<int64_t>(), (std::vector<int64_t>{1, 7, 0}));
  std::vector<std::string> names;
  for (const Any& name : results[1].ToList()) names.push_back(name.ToStringRef());
  EXPECT_EQ(names, (std::vector<std::string>{"dog", "cat", "bird"}));
}

TEST_F(OnnxLoad, UpsampleOfTheFirstVersion) {
  auto number = [](const char* name, float value) {
    format::Attribute attribute;
    attribute.name = name;
    attribute.kind = format::Attribute::kFloat;
    attribute.f = value;
    return attribute;
  };
  format::Graph graph;
  graph.inputs = {Info("x", format::kFloat, {{1, ""}, {1, ""}, {1, ""}, {2, ""}})};
  graph.outputs = {Info("y", format::kFloat, {{1, ""}, {1, ""}, {2, ""}, {6, ""}})};
  graph.nodes = {
      Node("Upsample", {"x"}, {"y"}, {number("height_scale", 2), number("width_scale", 3)})};
  Tensor y = Call(*Load(ModelOf(graph, 6)), {tensor({1.0, 2.0}).reshape({1, 1, 1, 2})});
  EXPECT_EQ(y.sizes(), (Dims{1, 1, 2, 6}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
}

/// y = x * x * w, and its derivative inside of the graph.
TEST_F(OnnxLoad, GradientIsANode) {
  auto names = [](const char* name, std::vector<std::string> values) {
    format::Attribute attribute;
    attribute.name = name;
    attribute.kind = format::Attribute::kStrings;
    attribute.strings = std::move(values);
    return attribute;
  };
  format::Attribute y;
  y.name = "y";
  y.kind = format::Attribute::kString;
  y.s = "y";
  format::Graph graph;
  graph.inputs = {Info("x", format::kFloat, {}), Info("w", format::kFloat, {})};
  graph.outputs = {Info("dx", format::kFloat, {}), Info("y", format::kFloat, {})};
  graph.nodes = {Node("Mul", {"x", "x"}, {"square"}), Node("Mul", {"square", "w"}, {"y"}),
                 Node("Gradient", {"x", "w"}, {"dx"}, {names("xs", {"x"}), names("zs", {"w"}), y})};
  graph.nodes[2].domain = "ai.onnx.preview.training";
  format::Model model = ModelOf(std::move(graph));
  model.opsets.push_back({"ai.onnx.preview.training", 1});
  ModulePtr module = Load(model);
  auto run = [&] {
    NoGradGuard no_grad;
    return module->run_method("forward", {tensor(3.0), tensor(5.0)}).ToList()[0].ToTensor();
  };
  EXPECT_EQ(run().item<float>(), 30);
  trace(*module);
  EXPECT_EQ(run().item<float>(), 30);
  model.graph.nodes[2].attributes[2].s = "w";  // no function of x
  EXPECT_THROW(Call(*Load(model), {tensor(3.0), tensor(5.0)}), ValueError);
}

/// "domain operator version..." of onnx 1.22, by scripts/onnx_schemas.py.
TEST_F(OnnxLoad, TheTableHasEveryOperatorOfTheStandard) {
  std::ifstream file(hammock::testing::SourcePath("tests/onnx/schemas.txt"));
  int operators = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string domain, name;
    words >> domain >> name;
    if (domain == "ai.onnx") domain.clear();
    ++operators;
    for (int version; words >> version;) {
      EXPECT_NE(FindOperator(domain, name, version), nullptr) << line << ": " << version;
    }
  }
  EXPECT_GT(operators, 220);
}

TEST_F(OnnxLoad, TheTableIsListed) {
  std::vector<OperatorRange> rows = operators();
  EXPECT_GT(rows.size(), 150u);
  for (const OperatorRange& row : rows) EXPECT_LE(row.since, row.until) << row.name;
}

}  // namespace
}  // namespace hammock::onnx
