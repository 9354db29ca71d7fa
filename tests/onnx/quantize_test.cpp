#include <gtest/gtest.h>

#include <cmath>

#include "hammock/hammock.h"
#include "hammock/ir/graph.h"
#include "hammock/ops/quantize.h"
#include "onnx/fold_quantization.h"
#include "onnx/models.h"

namespace hammock::onnx {
namespace {

using namespace testing;  // NOLINT: the models

class OnnxQuantized : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_absent().empty()) GTEST_SKIP() << why_absent();
  }
};

format::Attribute IntsAttribute(const std::string& name, std::vector<int64_t> values) {
  format::Attribute attribute;
  attribute.name = name;
  attribute.kind = format::Attribute::kInts;
  attribute.ints = std::move(values);
  return attribute;
}

/// x, quantised and dequantised, through a convolution of a dequantised weight, and quantised.
format::Graph ConvolutionBetweenFloats() {
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kFloat, {{1, ""}, {2, ""}, {5, ""}, {5, ""}}));
  graph.outputs.push_back(Info("y", format::kUint8, {{1, ""}, {3, ""}, {4, ""}, {5, ""}}));
  graph.initializers.push_back(Initial<float>("x_scale", {0.02f}, {}));
  graph.initializers.push_back(Initial<uint8_t>("x_zero", {100}, {}));
  std::vector<int8_t> weight(3 * 2 * 3 * 3);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<int8_t>(i * 37 % 255 - 127);
  graph.initializers.push_back(Initial<int8_t>("w", weight, {3, 2, 3, 3}));
  graph.initializers.push_back(Initial<float>("w_scale", {0.01f, 0.02f, 0.005f}, {3}));
  graph.initializers.push_back(Initial<int8_t>("w_zero", {0, 0, 0}, {3}));
  graph.initializers.push_back(Initial<float>("bias", {0.5f, -1, 2}, {3}));
  graph.initializers.push_back(Initial<float>("y_scale", {0.1f}, {}));
  graph.initializers.push_back(Initial<uint8_t>("y_zero", {128}, {}));
  graph.nodes = {
      Node("QuantizeLinear", {"x", "x_scale", "x_zero"}, {"x_quantised"}),
      Node("DequantizeLinear", {"x_quantised", "x_scale", "x_zero"}, {"x_real"}),
      Node("DequantizeLinear", {"w", "w_scale", "w_zero"}, {"w_real"}, {IntAttribute("axis", 0)}),
      // One more row is padded after the image than before it.
      Node("Conv", {"x_real", "w_real", "bias"}, {"sums"}, {IntsAttribute("pads", {0, 1, 1, 1})}),
      Node("QuantizeLinear", {"sums", "y_scale", "y_zero"}, {"y"})};
  return graph;
}

bool HasOp(const Module& module, std::string_view name) {
  for (const GraphNode& node : module.graph_body("forward").graph->nodes()) {
    if (node.op->name() == name) return true;
  }
  return false;
}

TEST_F(OnnxQuantized, ConvolutionsBetweenDequantisedFloatsAreOfIntegers) {
  format::Graph graph = ConvolutionBetweenFloats();
  Tensor x = sin(arange(50, f32) * 0.3).reshape({1, 2, 5, 5});
  auto run = [&](ModulePtr module) { return module->run_method("forward", {x}).ToTensor(); };
  ModulePtr module = Load(ModelOf(graph));
  Tensor y = run(module);
  trace(*module);
  EXPECT_TRUE(HasOp(*module, "int_convolution"));
  // In floats, which a scale that is no constant asks for.
  graph.inputs.push_back(Info("scale", format::kFloat, {}));
  graph.nodes[1].inputs[1] = "scale";
  ModulePtr floats = Load(ModelOf(graph));
  Tensor expected = floats->run_method("forward", {x, full({}, 0.02)}).ToTensor();
  EXPECT_LE(max(abs(y.to(i32) - expected.to(i32))).item<int>(), 1);
  EXPECT_EQ(run(Load(ModelOf(ConvolutionBetweenFloats()))).device(), x.device());
}

TEST_F(OnnxQuantized, ReferenceHasTheSameBits) {
  Tensor x = sin(arange(50, f32) * 0.3).reshape({1, 2, 5, 5});
  auto bits = [&](const Device& device) {
    ModulePtr module = Load(ModelOf(ConvolutionBetweenFloats()), {.device = device});
    return module->run_method("forward", {x.to(device)}).ToTensor().host();
  };
  EXPECT_TRUE(bits(Device("cpu")).SameBits(bits(Device("reference"))));
}

TEST(OnnxFoldQuantization, OnlyConstantScalesOfATensorOrOfOutputChannels) {
  auto domain_of = [](const format::Graph& graph) {
    format::Model model = ModelOf(graph);
    FoldQuantization(model);
    return model.graph.nodes[3].domain;
  };
  EXPECT_EQ(domain_of(ConvolutionBetweenFloats()), kDequantizedDomain);
  format::Graph other_axis = ConvolutionBetweenFloats();
  other_axis.nodes[2].attributes[0].i = 1;
  EXPECT_EQ(domain_of(other_axis), "");
  format::Graph wide = ConvolutionBetweenFloats();
  wide.initializers[1] = Initial<int16_t>("x_zero", {100}, {});
  EXPECT_EQ(domain_of(wide), "");
  format::Graph per_channel = ConvolutionBetweenFloats();
  per_channel.initializers[0] = Initial<float>("x_scale", {0.1f, 0.2f}, {2});
  EXPECT_EQ(domain_of(per_channel), "");
  format::Graph other_zeros = ConvolutionBetweenFloats();
  other_zeros.initializers[4] = Initial<int8_t>("w_zero", {0}, {1});
  EXPECT_EQ(domain_of(other_zeros), "");
}

TEST(OnnxFoldQuantization, WithoutAZeroPointTheTypeOfTheCodesDecides) {
  auto domain_of = [](const format::Graph& graph) {
    format::Model model = ModelOf(graph);
    FoldQuantization(model);
    return model.graph.nodes[3].domain;
  };
  format::Graph symmetric = ConvolutionBetweenFloats();
  symmetric.nodes[0].inputs.resize(2);  // u8 is what QuantizeLinear makes
  symmetric.nodes[1].inputs.resize(2);
  symmetric.nodes[2].inputs[2] = "";
  EXPECT_EQ(domain_of(symmetric), kDequantizedDomain);
  format::Graph wide = symmetric;
  wide.nodes[0].attributes.push_back(IntAttribute("output_dtype", format::kInt16));
  EXPECT_EQ(domain_of(wide), "");
  format::Graph unknown = symmetric;
  unknown.nodes[0].op = "Identity";
  EXPECT_EQ(domain_of(unknown), "");
}

/// The nodes of a graph in a function, which has its initialisers as constants.
format::Model InAFunction(const format::Graph& graph) {
  format::Function function;
  function.name = "block";
  function.domain = "own";
  function.inputs = {"x"};
  function.outputs = {"y"};
  function.opsets = {{"", 21}};
  for (const format::Tensor& tensor : graph.initializers) {
    format::Attribute value;
    value.name = "value";
    value.kind = format::Attribute::kTensor;
    value.tensors = {tensor};
    function.nodes.push_back(Node("Constant", {}, {tensor.name}, {value}));
  }
  function.nodes.insert(function.nodes.end(), graph.nodes.begin(), graph.nodes.end());
  format::Graph outer;
  outer.inputs = graph.inputs;
  outer.outputs = graph.outputs;
  outer.nodes = {Node("block", {"x"}, {"y"})};
  outer.nodes[0].domain = "own";
  format::Model model = ModelOf(outer);
  model.functions = {function};
  return model;
}

TEST_F(OnnxQuantized, NodesOfFunctionsAreOfIntegers) {
  const format::Graph graph = ConvolutionBetweenFloats();
  Tensor x = sin(arange(50, f32) * 0.3).reshape({1, 2, 5, 5});
  auto run = [&](ModulePtr module) { return module->run_method("forward", {x}).ToTensor(); };
  ModulePtr module = Load(InAFunction(graph));
  EXPECT_TRUE(run(module).host().SameBits(run(Load(ModelOf(graph))).host()));
  trace(*module);
  EXPECT_TRUE(HasOp(*module, "int_convolution"));
}

TEST(OnnxFoldQuantization, AttributesOfACallerAreNotKnown) {
  format::Model model = InAFunction(ConvolutionBetweenFloats());
  std::vector<format::Node>& nodes = model.functions[0].nodes;
  format::Attribute& axis = nodes[nodes.size() - 3].attributes[0];
  axis.from_caller = "axis_of_weight";
  FoldQuantization(model);
  EXPECT_EQ(nodes[nodes.size() - 2].domain, "");
  axis.from_caller.clear();
  FoldQuantization(model);
  EXPECT_EQ(nodes[nodes.size() - 2].domain, kDequantizedDomain);
}

TEST_F(OnnxQuantized, WeightsWithoutAZeroPointAreOfIntegers) {
  format::Graph graph = ConvolutionBetweenFloats();  // whose weight has zeros as zero points
  Tensor x = sin(arange(50, f32) * 0.3).reshape({1, 2, 5, 5});
  auto run = [&](ModulePtr module) { return module->run_method("forward", {x}).ToTensor(); };
  Tensor expected = run(Load(ModelOf(graph)));
  graph.nodes[2].inputs.resize(2);
  ModulePtr module = Load(ModelOf(graph));
  EXPECT_TRUE(run(module).host().SameBits(expected.host()));
  trace(*module);
  EXPECT_TRUE(HasOp(*module, "int_convolution"));
}

TEST_F(OnnxQuantized, MatmulsOfDequantisedVectorsHaveNoDims) {
  format::Graph graph;
  graph.inputs.push_back(Info("a", format::kUint8, {{3, ""}}));
  graph.outputs.push_back(Info("y", format::kFloat, {}));
  graph.initializers.push_back(Initial<float>("scale", {0.5f}, {1}));
  graph.initializers.push_back(Initial<uint8_t>("zero", {3}, {1}));
  graph.initializers.push_back(Initial<uint8_t>("b", {1, 2, 7}, {3}));
  graph.nodes = {Node("DequantizeLinear", {"a", "scale", "zero"}, {"a_real"}),
                 Node("DequantizeLinear", {"b", "scale", "zero"}, {"b_real"}),
                 Node("MatMul", {"a_real", "b_real"}, {"y"})};
  Tensor y = Load(ModelOf(graph))->run_method("forward", {tensor({4, 0, 5}, u8)}).ToTensor();
  EXPECT_EQ(y.dim(), 0);
  // (1, -3, 2) times (-2, -1, 4), by a quarter
  EXPECT_EQ(y.item<float>(), 2.25f);
}

TEST_F(OnnxQuantized, SumsThatIntegersCannotHoldAreOfFloats) {
  constexpr int64_t kTerms = 33026;  // of 255 * 255 each: over 2^31
  const std::vector<uint8_t> weight(kTerms, 255);
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kUint8, {{1, ""}, {kTerms, ""}, {1, ""}}));
  graph.outputs.push_back(Info("y", format::kFloat, {{1, ""}, {1, ""}, {1, ""}}));
  graph.outputs.push_back(Info("z", format::kFloat, {{1, ""}, {1, ""}, {1, ""}}));
  graph.initializers.push_back(Initial<float>("scale", {1}, {}));
  graph.initializers.push_back(Initial<uint8_t>("zero", {0}, {}));
  graph.initializers.push_back(Initial<uint8_t>("row", weight, {1, 1, kTerms}));
  graph.initializers.push_back(Initial<uint8_t>("filter", weight, {1, kTerms, 1}));
  graph.nodes = {Node("DequantizeLinear", {"x", "scale", "zero"}, {"x_real"}),
                 Node("DequantizeLinear", {"row", "scale", "zero"}, {"row_real"}),
                 Node("DequantizeLinear", {"filter", "scale", "zero"}, {"filter_real"}),
                 Node("MatMul", {"row_real", "x_real"}, {"y"}),
                 Node("Conv", {"x_real", "filter_real"}, {"z"})};
  Any results = Load(ModelOf(graph))->run_method("forward", {full({1, kTerms, 1}, 255, u8)});
  for (const Any& sum : results.ToList()) {
    EXPECT_NEAR(sum.ToTensor().item<double>() / (255.0 * 255 * kTerms), 1,
                1e-4);  // -1 if it wrapped
  }
}

TEST_F(OnnxQuantized, MatmulsOfVectorsRowsAndColumns) {
  format::Graph graph;
  graph.inputs.push_back(Info("a", format::kUint8, {{-1, "n"}}));
  graph.outputs.push_back(Info("y", format::kInt32, {{2, ""}}));
  graph.initializers.push_back(Initial<uint8_t>("b", {1, 2, 3, 4, 5, 6}, {3, 2}));
  graph.initializers.push_back(Initial<uint8_t>("a_zero", {3}, {}));
  graph.initializers.push_back(Initial<uint8_t>("b_zero", {1, 2}, {2}));
  graph.nodes = {Node("MatMulInteger", {"a", "b", "a_zero", "b_zero"}, {"y"})};
  Tensor y = Load(ModelOf(graph))->run_method("forward", {tensor({4, 0, 5}, u8)}).ToTensor();
  // (1, -3, 2) times columns (0, 2, 4) and (0, 2, 4)
  EXPECT_EQ(y.to_vector<int32_t>(), (std::vector<int32_t>{2, 2}));
}

/// Also where the depth ends within a block, and with zero points.
TEST_F(OnnxQuantized, MatMulNBitsMultipliesByThePackedWeight) {
  constexpr int64_t kColumns = 3, kBlock = 32;
  for (int64_t bits : {4, 8}) {
    for (int64_t depth : {64, 40}) {
      for (bool zeros : {false, true}) {
        const int64_t row = 2 * kBlock * bits / 8, zero_row = 2 * bits / 8;
        std::vector<uint8_t> packed(static_cast<size_t>(kColumns * row));
        for (size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<uint8_t>(i * 37 + 11);
        std::vector<uint8_t> zero(static_cast<size_t>(kColumns * zero_row));
        for (size_t i = 0; i < zero.size(); ++i) zero[i] = static_cast<uint8_t>(i * 91 + 5);
        const std::vector<float> scale{0.5, 0.25, 1, 2, 0.125, 4};
        format::Graph graph;
        graph.inputs.push_back(Info("x", format::kFloat, {{-1, "n"}, {depth, ""}}));
        graph.outputs.push_back(Info("y", format::kFloat, {{-1, "n"}, {kColumns, ""}}));
        graph.initializers = {Initial<uint8_t>("w", packed, {kColumns, 2, row / 2}),
                              Initial<float>("scale", scale, {kColumns * 2}),
                              Initial<uint8_t>("zero", zero, {kColumns * zero_row})};
        std::vector<std::string> names{"x", "w", "scale"};
        if (zeros) names.emplace_back("zero");
        graph.nodes = {Node("MatMulNBits", names, {"y"},
                            {IntAttribute("K", depth), IntAttribute("N", kColumns),
                             IntAttribute("bits", bits), IntAttribute("block_size", kBlock)})};
        graph.nodes[0].domain = "com.microsoft";
        format::Model model = ModelOf(std::move(graph));
        model.opsets.push_back({"com.microsoft", 1});
        ModulePtr module = Load(model);
        Tensor x = sin(arange(2 * depth, f32)).reshape({2, depth});
        trace(*module, std::vector<Any>{x});
        EXPECT_TRUE(HasOp(*module, "quantized_linear"));
        std::vector<float> y = module->run_method("forward", {x}).ToTensor().to_vector<float>();
        std::vector<float> from = x.to_vector<float>();
        auto code = [&](const std::vector<uint8_t>& bytes, int64_t begin, int64_t i) {
          if (bits == 8) return int{bytes[static_cast<size_t>(begin + i)]};
          return (bytes[static_cast<size_t>(begin + i / 2)] >> (i % 2 * 4)) & 15;
        };
        for (int64_t i = 0; i < 2 * kColumns; ++i) {
          const int64_t column = i % kColumns;
          double sum = 0;
          for (int64_t k = 0; k < depth; ++k) {
            const int64_t block = k / kBlock;
            const int origin = zeros ? code(zero, column * zero_row, block) : 1 << (bits - 1);
            sum += static_cast<double>(from[static_cast<size_t>(i / kColumns * depth + k)]) *
                   (code(packed, column * row, k) - origin) *
                   static_cast<double>(scale[static_cast<size_t>(column * 2 + block)]);
          }
          EXPECT_NEAR(y[static_cast<size_t>(i)], sum, 1e-3 + 1e-5 * std::abs(sum))
              << bits << " bits, depth " << depth << ", zeros " << zeros << ", element " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace hammock::onnx
