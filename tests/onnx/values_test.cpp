#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "hammock/hammock.h"
#include "ir/expect_error.h"
#include "onnx/models.h"
#include "onnx/narrow.h"

namespace hammock::onnx {
namespace {

using namespace testing;  // NOLINT: the models

class OnnxValues : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_absent().empty()) GTEST_SKIP() << why_absent();
  }
};

/// The number of a code by the definition of the format.
double Meaning(int code, int exponent_bits, int mantissa_bits, int bias) {
  int exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  double fraction = (code & ((1 << mantissa_bits) - 1)) / std::ldexp(1.0, mantissa_bits);
  double value =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (code >> (exponent_bits + mantissa_bits)) & 1 ? -value : value;
}

TEST(OnnxNarrow, CodesStandForTheirNumbersAndComeBack) {
  struct Case {
    int32_t element;
    int exponent, mantissa, bias, codes;
  };
  for (const Case& c :
       {Case{format::kFloat8E4M3FN, 4, 3, 7, 256}, Case{format::kFloat8E4M3FNUZ, 4, 3, 8, 256},
        Case{format::kFloat8E5M2, 5, 2, 15, 256}, Case{format::kFloat8E5M2FNUZ, 5, 2, 16, 256},
        Case{format::kFloat4E2M1, 2, 1, 1, 16}}) {
    Tensor codes = arange(c.codes).to(u8);
    std::vector<float> numbers = Decoded(codes, c.element).to_vector<float>();
    std::vector<uint8_t> again =
        Encoded(Decoded(codes, c.element), c.element, {.saturate = false}).to_vector<uint8_t>();
    int finite = 0;
    for (int code = 0; code < c.codes; ++code) {
      auto at = static_cast<size_t>(code);
      if (!std::isfinite(numbers[at])) continue;
      ++finite;
      EXPECT_EQ(static_cast<double>(numbers[at]), Meaning(code, c.exponent, c.mantissa, c.bias));
      EXPECT_EQ(again[at], code) << NameOfElement(c.element);
    }
    EXPECT_GE(finite, c.codes - 8);
  }
}

TEST(OnnxNarrow, NumbersBetweenCodesGoToTheNearestAndTiesToEven) {
  Tensor x = tensor({1.0625, 1.1875, 1.07, -1.0625, 447.0, 500.0, 1e-9});
  Tensor back = Decoded(Encoded(x, format::kFloat8E4M3FN), format::kFloat8E4M3FN);
  EXPECT_EQ(back.to_vector<float>(), (std::vector<float>{1, 1.25, 1.125, -1, 448, 448, 0}));
}

TEST_F(OnnxValues, PackedIntegersAreWeights) {
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kFloat, {{1, ""}, {3, ""}}));
  graph.outputs.push_back(Info("y", format::kFloat, {{1, ""}, {1, ""}}));
  format::Tensor weight;
  weight.name = "w";
  weight.element = format::kInt4;
  weight.dims = {3, 1};
  weight.bytes = std::string("\x2f\x08", 2);  // -1, 2, -8
  graph.initializers.push_back(weight);
  graph.initializers.push_back(Initial<float>("scale", {0.5f}, {}));
  graph.nodes.push_back(Node("DequantizeLinear", {"w", "scale"}, {"real"}));
  graph.nodes.push_back(Node("MatMul", {"x", "real"}, {"y"}));
  ModulePtr module = Load(ModelOf(graph));
  EXPECT_EQ(module->get_tensor("w").to_vector<int8_t>(), (std::vector<int8_t>{-1, 2, -8}));
  Tensor y = module->run_method("forward", {tensor({1.0, 10.0, 100.0}).reshape({1, 3})}).ToTensor();
  EXPECT_EQ(y.item<float>(), -0.5f + 10 - 400);
  graph.initializers[0].bytes = "\x2f";
  EXPECT_THROW(Load(ModelOf(graph)), ValueError);
  // An operator that computes does not take codes for numbers.
  graph.initializers[0] = weight;
  graph.nodes[0] = Node("Abs", {"w"}, {"real"});
  ModulePtr wrong = Load(ModelOf(graph));
  EXPECT_THROW(wrong->run_method("forward", {ones({1, 3})}), NotSupported);
}

TEST_F(OnnxValues, ComplexNumbersMoveLikeOthers) {
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kComplex64, {{2, ""}, {1, ""}}));
  graph.outputs.push_back(Info("y", format::kComplex64, {{1, ""}, {3, ""}}));
  graph.initializers.push_back(
      Initial<std::complex<float>>("weight", {std::complex<float>(5, -6)}, {1, 1}));
  format::Attribute axis = IntAttribute("axis", 0);
  graph.nodes = {Node("Concat", {"x", "weight"}, {"joined"}, {axis}),
                 Node("Transpose", {"joined"}, {"y"})};
  ModulePtr module = Load(ModelOf(std::move(graph)));
  EXPECT_EQ(inputs(*module)[0].dtype, c64);
  using Number = std::complex<float>;
  Tensor x = tensor(std::vector<Number>{{1, 2}, {3, -4}}, {2, 1});
  EXPECT_EQ(module->run_method("forward", {x}).ToTensor().to_vector<Number>(),
            (std::vector<Number>{{1, 2}, {3, -4}, {5, -6}}));
}

TEST_F(OnnxValues, StringsMoveLikeNumbers) {
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kString, {{2, ""}, {2, ""}}));
  graph.outputs.push_back(Info("y", format::kString, {{4, ""}}));
  graph.initializers.push_back(Initial<int64_t>("shape", {-1}, {1}));
  graph.nodes.push_back(Node("Transpose", {"x"}, {"t"}));
  graph.nodes.push_back(Node("Reshape", {"t", "shape"}, {"y"}));
  ModulePtr module = Load(ModelOf(graph));
  Any y = module->run_method("forward", {Any(AnyList{"a", "b", "c", "d"})});
  std::string text;
  for (const Any& item : y.ToList()) text += item.ToStringRef();
  EXPECT_EQ(text, "acbd");
}

TEST_F(OnnxValues, StringsAndNumbersAreCast) {
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kString, {{3, ""}}));
  graph.outputs = {Info("y", format::kFloat, {{3, ""}}), Info("z", format::kString, {{3, ""}})};
  graph.nodes.push_back(Node("Cast", {"x"}, {"y"}, {IntAttribute("to", format::kFloat)}));
  graph.nodes.push_back(Node("Cast", {"y"}, {"z"}, {IntAttribute("to", format::kString)}));
  ModulePtr module = Load(ModelOf(graph));
  AnyList results = module->run_method("forward", {Any(AnyList{"1.5", "-INF", "1e3"})}).ToList();
  EXPECT_EQ(results[0].ToTensor().to_vector<float>(), (std::vector<float>{1.5f, -INFINITY, 1000}));
  EXPECT_EQ(results[1].ToList()[0].ToStringRef(), "1.5");
  EXPECT_EQ(results[1].ToList()[1].ToStringRef(), "-INF");
  EXPECT_EQ(results[1].ToList()[2].ToStringRef(), "1000");
  EXPECT_THROW(module->run_method("forward", {Any(AnyList{"1", "2", "three"})}), ValueError);
}

TEST_F(OnnxValues, ScoresAreMapsByLabel) {
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kFloat, {{-1, "n"}, {2, ""}}));
  format::ValueInfo output{"y", {}};
  output.type.kind = format::Type::kSequence;
  graph.outputs.push_back(output);
  format::Attribute labels;
  labels.name = "classlabels_int64s";
  labels.kind = format::Attribute::kInts;
  labels.ints = {7, 9};
  graph.nodes.push_back(Node("ZipMap", {"x"}, {"y"}, {labels}));
  graph.nodes.back().domain = "ai.onnx.ml";
  format::Model model = ModelOf(graph);
  model.opsets.push_back({"ai.onnx.ml", 1});
  Any y = Load(model)->run_method("forward", {tensor({0.25, 0.75, 1.0, 0.0}).reshape({2, 2})});
  ASSERT_EQ(y.ToList().size(), 2u);
  EXPECT_EQ(y.ToList()[0].ToDict().at("9").ToTensor().item<float>(), 0.75f);
  EXPECT_EQ(y.ToList()[1].ToDict().at("7").ToTensor().item<float>(), 1.0f);
}

/// y = s, transposed: a list for each row.
TEST_F(OnnxValues, StringsOfSeveralDimsAreListsInLists) {
  format::Graph graph;
  graph.inputs = {Info("s", format::kString, {{2, ""}, {-1, ""}})};
  graph.outputs = {Info("y", format::kString, {})};
  graph.nodes = {Node("Transpose", {"s"}, {"y"})};
  ModulePtr module = Load(ModelOf(std::move(graph)));
  Any y =
      module->run_method("forward", {Any(AnyList{AnyList{"a", "b", "c"}, AnyList{"d", "e", "f"}})});
  ASSERT_EQ(y.ToList().size(), 3u);
  EXPECT_EQ(y.ToList()[2].ToList()[0].ToStringRef(), "c");
  EXPECT_EQ(y.ToList()[2].ToList()[1].ToStringRef(), "f");
  EXPECT_ERROR(module->run_method("forward", {Any(AnyList{Any(AnyList{"a"}), AnyList{"b", "c"}})}),
               ValueError, "in lists of unequal sizes");
}

}  // namespace
}  // namespace hammock::onnx
