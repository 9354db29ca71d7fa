// Damaged and wrong files: an error that names what is wrong, and nothing worse.

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <random>

#include "hammock/hammock.h"
#include "onnx/models.h"

namespace hammock::onnx {
namespace {

using namespace testing;  // NOLINT: the models

class OnnxBadFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_absent().empty()) GTEST_SKIP() << why_absent();
  }
};

/// The message of the error that loading gives.
std::string ErrorOf(const format::Model& model, const LoadOptions& options = {}) {
  try {
    Load(model, options);
  } catch (const Error& error) {
    return error.message();
  }
  return "it was loaded";
}

TEST_F(OnnxBadFiles, CutOffAnywhere) {
  std::string bytes = Bytes(Linear());
  for (size_t size = 0; size < bytes.size(); ++size) {
    try {
      Load(bytes.substr(0, size));  // a part that ends between fields may be a model
    } catch (const Error&) {
    }
  }
}

TEST_F(OnnxBadFiles, FlippedBits) {
  std::string bytes = Bytes(Linear());
  std::mt19937 engine(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = bytes;
    for (int k = 0; k < 1 + i % 3; ++k) {
      damaged[engine() % damaged.size()] ^= static_cast<char>(1 << (engine() % 8));
    }
    try {
      ModulePtr module = Load(damaged);
      PackTensors(module->run_method("forward", {ones({2, 4})}));
    } catch (const Error&) {
    }
  }
}

TEST_F(OnnxBadFiles, NoModel) {
  try {
    Load(std::string("this is no model at all"));
    FAIL() << "it was loaded";
  } catch (const ValueError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kParse);
    EXPECT_NE(error.message().find("cut off or damaged"), std::string::npos);
  }
}

TEST_F(OnnxBadFiles, Cycles) {
  format::Model model = Linear();
  model.graph.nodes[0].inputs[0] = "y";
  EXPECT_EQ(ErrorOf(model),
            "onnx: node 'MatMul_product' (MatMul) uses 'y', which a later node computes: the graph "
            "has a cycle or is not sorted");
}

TEST_F(OnnxBadFiles, UnknownNames) {
  format::Model model = Linear();
  model.graph.nodes[4].inputs[0] = "nobody";
  EXPECT_EQ(ErrorOf(model),
            "onnx: node 'Relu_y' (Relu) uses 'nobody', which no input, initialiser or node gives");
  model = Linear();
  model.graph.outputs[0].name = "nobody";
  EXPECT_EQ(ErrorOf(model), "onnx: nothing computes the output 'nobody'");
  model = Linear();
  model.graph.nodes[4].outputs[0] = "sum";
  EXPECT_EQ(ErrorOf(model), "onnx: node 'Relu_y' (Relu) computes 'sum', which has a value already");
}

TEST_F(OnnxBadFiles, UnknownOpset) {
  format::Model model = Linear();
  model.opsets[0].version = 1000;
  EXPECT_NE(ErrorOf(model).find("opset 1000 of ai.onnx"), std::string::npos);
}

TEST_F(OnnxBadFiles, GiantDims) {
  format::Model model = Linear();
  model.graph.initializers[0].dims = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_NE(ErrorOf(model).find("fc.weight"), std::string::npos);
  model.graph.initializers[0].dims = {int64_t{1} << 20, int64_t{1} << 20};
  EXPECT_EQ(ErrorOf(model),
            "onnx: tensor 'fc.weight' of f32[1048576,1048576] needs 4398046511104 bytes, the file "
            "has 48");
  model.graph.initializers[0].dims = {-4, 3};
  EXPECT_NE(ErrorOf(model).find("fc.weight"), std::string::npos);
}

/// Positions are computed, not listed: a short file cannot ask for gigabytes of them.
TEST_F(OnnxBadFiles, LargePadsTakeNoMemoryWhenTheyAreRecorded) {
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kFloat, {{3, ""}}));
  graph.outputs.push_back(Info("y", format::kFloat, {{-1, "n"}}));
  graph.initializers.push_back(Initial<int64_t>("pads", {int64_t{1} << 30, 2}, {2}));
  format::Attribute mode;
  mode.name = "mode";
  mode.kind = format::Attribute::kString;
  mode.s = "reflect";
  graph.nodes = {Node("Pad", {"x", "pads"}, {"y"}, {mode})};
  const Device device("null");
  ModulePtr module = Load(ModelOf(std::move(graph)), {.device = device});
  Tensor y = module->run_method("forward", {zeros({3}, f32, device)}).ToTensor();
  EXPECT_EQ(y.sizes(), (Dims{(int64_t{1} << 30) + 5}));
}

TEST_F(OnnxBadFiles, PadsWhoseSumOverflows) {
  constexpr int64_t kHalf = int64_t{1} << 62, kLeast = std::numeric_limits<int64_t>::min();
  for (std::vector<int64_t> pads : {std::vector{kHalf, kHalf}, {kLeast, kLeast}}) {
    for (const char* mode : {"constant", "edge"}) {
      format::Graph graph;
      graph.inputs.push_back(Info("x", format::kFloat, {{3, ""}}));
      graph.outputs.push_back(Info("y", format::kFloat, {{-1, "n"}}));
      graph.initializers.push_back(Initial<int64_t>("pads", pads, {2}));
      format::Attribute attribute;
      attribute.name = "mode";
      attribute.kind = format::Attribute::kString;
      attribute.s = mode;
      graph.nodes = {Node("Pad", {"x", "pads"}, {"y"}, {attribute})};
      ModulePtr module = Load(ModelOf(std::move(graph)));
      try {
        module->run_method("forward", {zeros({3})});
        ADD_FAILURE() << "not refused: " << pads[0] << ' ' << mode;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("at most"), std::string::npos) << error.what();
      }
    }
  }
}

TEST_F(OnnxBadFiles, ExternalData) {
  LoadOptions options;
  options.folder = ::testing::TempDir();
  format::Model model = Linear();
  format::Tensor& weight = model.graph.initializers[0];
  weight.external = true;
  auto error_at = [&](const std::string& location) {
    weight.external_data = {{"location", location}};
    return ErrorOf(model, options);
  };
  EXPECT_NE(error_at("absent.bin").find("there is no file"), std::string::npos);
  for (const char* path : {"../secret", "/etc/passwd", "a/../../secret", ""}) {
    EXPECT_NE(error_at(path).find("not a file below the model's folder"), std::string::npos)
        << path;
  }
  EXPECT_NE(ErrorOf(model).find("no folder is given"), std::string::npos);
}

TEST_F(OnnxBadFiles, WrongTypesNameTheNode) {
  format::Model model = Linear();
  model.graph.initializers[1] = Initial<int64_t>("fc.bias", {1, 2}, {2});
  ModulePtr module = Load(model);
  try {
    module->run_method("forward", {ones({1, 4})});
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_TRUE(error.message().starts_with("onnx: node 'Expand_bias' (Expand): "))
        << error.message();
  }
}

TEST_F(OnnxBadFiles, TooFewDimsNameTheNode) {
  format::Graph graph;
  graph.inputs = {Info("x", format::kFloat, {}),
                  Info("w", format::kFloat, {{4, ""}, {1, ""}, {4, ""}})};
  graph.outputs.push_back(Info("y", format::kFloat, {}));
  graph.nodes.push_back(Node("CausalConvWithState", {"x", "w"}, {"y", "state"}));
  ModulePtr module = Load(ModelOf(std::move(graph), 27));
  try {
    module->run_method("forward", {tensor(1.0), ones({4, 1, 4})});
    FAIL() << "it ran";
  } catch (const ValueError& error) {
    EXPECT_NE(error.message().find("CausalConvWithState_y"), std::string::npos) << error.message();
  }
}

TEST_F(OnnxBadFiles, WrongInputsNameTheInput) {
  ModulePtr module = Load(Linear());
  EXPECT_THROW(module->run_method("forward", {ones({1, 4}, DType::kI64)}), TypeError);
  try {
    module->run_method("forward", {ones({1, 5})});
    FAIL() << "it ran";
  } catch (const ValueError& error) {
    EXPECT_EQ(error.message(), "onnx: input 'x' is f32[1,5], needs [batch,4]");
  }
}

}  // namespace
}  // namespace hammock::onnx
