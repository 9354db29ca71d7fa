/// The operators of com.microsoft take what their rows say, and nothing else.

#include <gtest/gtest.h>

#include "ir/expect_error.h"
#include "onnx/models.h"

namespace hammock::onnx {
namespace {

using testing::Info;
using testing::IntAttribute;
using testing::Load;
using testing::ModelOf;
using testing::Node;

/// One node of com.microsoft whose inputs are those of the model.
format::Model ModelOfNode(const std::string& op, const std::vector<std::string>& inputs,
                          std::vector<format::Attribute> attributes) {
  format::Graph graph;
  for (const std::string& name : inputs) {
    if (!name.empty()) graph.inputs.push_back(Info(name, format::kFloat, {{-1, ""}, {-1, ""}}));
  }
  graph.outputs.push_back(Info("y", format::kFloat, {}));
  graph.nodes.push_back(Node(op, inputs, {"y"}, std::move(attributes)));
  graph.nodes[0].domain = "com.microsoft";
  format::Model model = ModelOf(std::move(graph));
  model.opsets.push_back({"com.microsoft", 1});
  return model;
}

class OnnxContrib : public ::testing::Test {
  void SetUp() override {
    if (!why_absent().empty()) GTEST_SKIP() << why_absent();
  }
};

TEST_F(OnnxContrib, RefusesInputsAndAttributesThatItDoesNotKnow) {
  const std::vector<format::Attribute> heads{IntAttribute("num_heads", 2)};
  EXPECT_ERROR(
      Load(ModelOfNode("MultiHeadAttention", {"q", "k", "v", "", "", "", "", "", "before"}, heads)),
      NotSupported,
      "com.microsoft.MultiHeadAttention with input 'past_sequence_length' (opset 1) in "
      "MultiHeadAttention_y");
  EXPECT_ERROR(Load(ModelOfNode("Gelu", {"x", "", "more"}, {})), NotSupported,
               "com.microsoft.Gelu with input 2 (opset 1) in Gelu_y");
  EXPECT_ERROR(Load(ModelOfNode("Attention", {"x", "w"},
                                {IntAttribute("num_heads", 2), IntAttribute("do_rotary", 1)})),
               NotSupported,
               "com.microsoft.Attention with attribute 'do_rotary' (opset 1) in Attention_y");
  EXPECT_ERROR(Load(ModelOfNode("FusedMatMul", {"a", "b"}, {IntAttribute("later", 0)})),
               NotSupported,
               "com.microsoft.FusedMatMul with attribute 'later' (opset 1) in FusedMatMul_y");
}

TEST_F(OnnxContrib, TakesWhatChangesNothing) {
  Load(ModelOfNode("Gelu", {"x", "", ""}, {}));
  Load(ModelOfNode("Attention", {"x", "w"},
                   {IntAttribute("num_heads", 2), IntAttribute("do_rotary", 0)}));
  Load(ModelOfNode("IsAllFinite", {"a", "b", "c", "d"}, {}));
}

TEST_F(OnnxContrib, ListsAllNodesThatAreRefused) {
  format::Model model = ModelOfNode("Gelu", {"x", "more"}, {});
  model.graph.nodes.push_back(model.graph.nodes[0]);
  model.graph.nodes[1].name = "second";
  model.graph.nodes[1].outputs = {"z"};
  EXPECT_ERROR(Load(model), NotSupported, "Gelu_y, second");
}

TEST(OnnxContribTable, EveryRowSaysWhatItTakes) {
  for (const Operator* op : AllOperators()) {
    EXPECT_EQ(op->takes != nullptr, op->domain == std::string_view("com.microsoft")) << op->name;
  }
}

}  // namespace
}  // namespace hammock::onnx
