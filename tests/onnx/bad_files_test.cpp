// Damaged and wrong files: an error that names what is wrong, and nothing worse.

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>

#include "hammock/hammock.h"
#include "onnx/models.h"
#include "support/sanitizers.h"

namespace hammock::onnx {
namespace {

using namespace testing;  // NOLINT: the models
using hammock::testing::kAddressSanitizer, hammock::testing::kThreadSanitizer;

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

/// The message of the error that a call gives within a second of processor time, of which a busy
/// machine takes no more.
std::string ErrorOfCall(const format::Model& model, const std::vector<Any>& inputs) {
  ModulePtr module = Load(model);
  const std::clock_t start = std::clock();
  std::string message = "it ran";
  try {
    for (const Tensor& y : PackTensors(module->run_method("forward", inputs)).tensors) y.host();
  } catch (const Error& error) {
    message = error.message();
  }
  EXPECT_LT(std::clock() - start,
            (kAddressSanitizer || kThreadSanitizer ? 30 : 1) * CLOCKS_PER_SEC);
  return message;
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

TEST_F(OnnxBadFiles, LinksThatLeaveTheFolder) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / fmt::format("onnx_links_{}", getpid());
  fs::create_directories(folder / "model");
  std::ofstream(folder / "secret.bin") << std::string(48, 'x');
  fs::create_symlink(folder / "secret.bin", folder / "model" / "weights.bin");
  fs::create_directory_symlink(folder, folder / "model" / "up");
  format::Model model = Linear();
  format::Tensor& weight = model.graph.initializers[0];
  weight.external = true;
  for (const char* location : {"weights.bin", "up/secret.bin"}) {
    weight.external_data = {{"location", location}};
    EXPECT_NE(ErrorOf(model, {.folder = (folder / "model").string()})
                  .find("not a file below the model's folder"),
              std::string::npos)
        << location;
  }
  fs::remove_all(folder);
}

/// Shapes that no memory holds, which a few bytes of a file ask for.
TEST_F(OnnxBadFiles, GiantComputedShapes) {
  const int64_t giant = int64_t{1} << 50;
  auto error_of = [&](const format::Node& node) {
    format::Graph graph;
    graph.inputs = {Info("x", format::kFloat, {{1, ""}})};
    graph.outputs = {Info("y", node.op == "Range" ? format::kInt64 : format::kFloat, {})};
    graph.initializers = {
        Initial<int64_t>("giant", {giant}, {1}), Initial<int64_t>("overflow", {giant, giant}, {2}),
        Initial<int64_t>("negative", {-2}, {1}), Initial<int64_t>("zero", {0}, {}),
        Initial<int64_t>("one", {1}, {}),        Initial<int64_t>("most", {giant}, {})};
    graph.nodes = {node};
    return ErrorOfCall(ModelOf(std::move(graph)), {ones({1})});
  };
  for (const char* sizes : {"giant", "overflow", "negative"}) {
    EXPECT_NE(error_of(Node("ConstantOfShape", {sizes}, {"y"})), "it ran") << sizes;
    EXPECT_NE(error_of(Node("Expand", {"x", sizes}, {"y"})), "it ran") << sizes;
    if (sizes != std::string("overflow")) {  // of another rank
      EXPECT_NE(error_of(Node("Tile", {"x", sizes}, {"y"})), "it ran") << sizes;
    }
  }
  EXPECT_NE(error_of(Node("Range", {"zero", "most", "one"}, {"y"})), "it ran");
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

/// A model of one node: its inputs, of any shape, are those of the model, then the initializers.
format::Model OneNode(const std::string& op, std::vector<format::ValueInfo> inputs,
                      std::vector<format::Attribute> attributes, int64_t opset,
                      std::vector<format::Tensor> initializers = {}) {
  std::vector<std::string> names;
  for (format::ValueInfo& input : inputs) {
    input.type.has_shape = false;
    names.push_back(input.name);
  }
  for (const format::Tensor& tensor : initializers) names.push_back(tensor.name);
  format::Graph graph;
  graph.inputs = std::move(inputs);
  graph.outputs.push_back(Info("y", format::kFloat, {}));
  graph.initializers = std::move(initializers);
  graph.nodes.push_back(Node(op, names, {"y"}, std::move(attributes)));
  return ModelOf(std::move(graph), opset);
}

/// The same of another domain.
format::Model In(const std::string& domain, int64_t version, format::Model model) {
  model.graph.nodes[0].domain = domain;
  model.opsets.push_back({domain, version});
  return model;
}

format::Attribute ListAttribute(const std::string& name, std::vector<int64_t> values) {
  format::Attribute attribute;
  attribute.name = name;
  attribute.kind = format::Attribute::kInts;
  attribute.ints = std::move(values);
  return attribute;
}

format::Attribute FloatsAttribute(const std::string& name, std::vector<float> values) {
  format::Attribute attribute;
  attribute.name = name;
  attribute.kind = format::Attribute::kFloats;
  attribute.floats = std::move(values);
  return attribute;
}

format::Attribute TextAttribute(const std::string& name, const std::string& value) {
  format::Attribute attribute;
  attribute.name = name;
  attribute.kind = format::Attribute::kString;
  attribute.s = value;
  return attribute;
}

TEST_F(OnnxBadFiles, NothingIsDividedByZero) {
  auto floats = [](const char* name) { return Info(name, format::kFloat, {}); };
  auto expect = [](const format::Model& model, const std::vector<Any>& inputs, const char* part) {
    std::string message = ErrorOfCall(model, inputs);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  constexpr const char* kMicrosoft = "com.microsoft";
  format::Model bits =
      OneNode("MatMulNBits", {floats("x"), Info("w", format::kUint8, {}), floats("scales")},
              {IntAttribute("K", 1), IntAttribute("N", 1), IntAttribute("bits", 0)}, 21);
  expect(In(kMicrosoft, 1, bits), {ones({1, 1}), ones({1, 1, 1}, DType::kU8), ones({1})},
         "elements of 0 bits");
  format::Model rotary = OneNode(
      "RotaryEmbedding",
      {floats("x"), Info("at", format::kInt64, {}), floats("cosine"), floats("sine")}, {}, 21);
  expect(In(kMicrosoft, 1, rotary),
         {ones({1, 2, 4}), zeros({1}, DType::kI64), ones({2, 0}), ones({2, 0})},
         "heads of 0 in f32[1,2,4]");
  for (const char* groups : {"group", "offset_group"}) {
    expect(OneNode("DeformConv", {floats("x"), floats("w"), floats("offset")},
                   {IntAttribute(groups, 0)}, 19),
           {ones({1, 1, 3, 3}), ones({1, 1, 2, 2}), ones({1, 8, 2, 2})}, "groups");
  }
  expect(OneNode("DequantizeLinear", {Info("x", format::kInt8, {}), floats("scale")},
                 {IntAttribute("axis", 0)}, 21),
         {ones({2, 3}, DType::kI8), ones({0, 3})}, "a scale of f32[0,3] for i8[2,3]");
}

/// A product of sizes that overflows may be any number, 0 too.
TEST_F(OnnxBadFiles, ProductsOfSizesThatOverflow) {
  constexpr int64_t kLarge = int64_t{1} << 32;
  format::ValueInfo x = Info("x", format::kFloat, {});
  EXPECT_NE(ErrorOfCall(OneNode("DepthToSpace", {x}, {IntAttribute("blocksize", kLarge)}, 13),
                        {ones({1, 4, 1, 1})})
                .find("blocksize 4294967296 of f32[1,4,1,1]"),
            std::string::npos);
  EXPECT_NE(ErrorOfCall(OneNode("Col2Im", {x}, {}, 18,
                                {Initial<int64_t>("image", {4, 4}, {2}),
                                 Initial<int64_t>("block", {kLarge, kLarge}, {2})}),
                        {ones({1, 4, 1})})
                .find("a list of 4294967296 numbers"),
            std::string::npos);
  // Times the five numbers of a region: 3.
  format::Attribute grid = ListAttribute("pooled_shape", {0x6666666666666667, 1});
  EXPECT_NE(ErrorOfCall(OneNode("MaxRoiPool", {x}, {grid}, 1,
                                {Initial<float>("region", {0, 0, 0, 1, 1}, {1, 5})}),
                        {ones({1, 1, 2, 2})})
                .find("a list of 7378697629483820647 numbers"),
            std::string::npos);
}

/// Counts and indexes of a file are compared with the lists that they are used for.
TEST_F(OnnxBadFiles, IndexesOutsideOfTables) {
  constexpr int64_t kLarge = int64_t{1} << 60;
  constexpr const char* kLearning = "ai.onnx.ml";
  format::ValueInfo x = Info("x", format::kFloat, {});
  format::Attribute modes;
  modes.name = "nodes_modes";
  modes.kind = format::Attribute::kStrings;
  modes.strings.assign(16, "LEAF");
  std::vector<int64_t> zero(16, 0), ids(16);
  std::iota(ids.begin(), ids.end(), 0);
  format::Model tree =
      OneNode("TreeEnsembleRegressor", {x},
              {ListAttribute("nodes_treeids", zero), ListAttribute("nodes_nodeids", ids),
               ListAttribute("nodes_featureids", zero), ListAttribute("nodes_truenodeids", zero),
               ListAttribute("nodes_falsenodeids", zero),
               FloatsAttribute("nodes_values", std::vector<float>(16, 0)), modes,
               IntAttribute("n_targets", kLarge), ListAttribute("target_treeids", {0}),
               ListAttribute("target_nodeids", {0}), ListAttribute("target_ids", {kLarge - 1}),
               FloatsAttribute("target_weights", {1})},
              21);
  EXPECT_NE(ErrorOfCall(In(kLearning, 3, tree), {ones({1, 1})})
                .find("a list of 1152921504606846976 numbers"),
            std::string::npos);

  constexpr int64_t kQuarter = int64_t{1} << 62;  // the sum of four is 0
  format::Model vectors = OneNode(
      "SVMClassifier", {x},
      {ListAttribute("vectors_per_class", {kQuarter, kQuarter, kQuarter, kQuarter, 1}),
       ListAttribute("classlabels_ints", {0, 1, 2, 3, 4}),
       FloatsAttribute("coefficients", std::vector<float>(200, 1)),
       FloatsAttribute("support_vectors", {1}), FloatsAttribute("rho", std::vector<float>(10, 0)),
       TextAttribute("kernel_type", "LINEAR")},
      21);
  EXPECT_NE(ErrorOfCall(In(kLearning, 1, vectors), {ones({1, 1})})
                .find("a list of 4611686018427387904 numbers"),
            std::string::npos);

  format::Model counts =
      OneNode("TfIdfVectorizer", {},
              {ListAttribute("ngram_counts", {0}), ListAttribute("ngram_indexes", {-500000, 3}),
               ListAttribute("pool_int64s", {1, 2}), TextAttribute("mode", "TF"),
               IntAttribute("min_gram_length", 1), IntAttribute("max_gram_length", 1),
               IntAttribute("max_skip_count", 0)},
              9, {Initial<int64_t>("words", {1, 2}, {2})});
  EXPECT_NE(ErrorOfCall(counts, {}).find("an index of -500000"), std::string::npos);

  format::Model boxes = OneNode("NonMaxSuppression", {}, {}, 11,
                                {Initial<float>("boxes", std::vector<float>(64, 1), {1, 64, 1}),
                                 Initial<float>("scores", std::vector<float>(64, 1), {1, 1, 64}),
                                 Initial<int64_t>("most", {64}, {1})});
  EXPECT_NE(ErrorOfCall(boxes, {}).find("boxes of f32[1,64,1]"), std::string::npos);
}

/// The tensors of attributes are as long as their dims say.
TEST_F(OnnxBadFiles, AttributesThatAreCutOff) {
  auto cut_off = [](const char* name) {
    format::Attribute attribute;
    attribute.name = name;
    attribute.kind = format::Attribute::kTensor;
    attribute.tensors.push_back(Initial<int64_t>(name, {1}, {4096}));
    return attribute;
  };
  format::Model labels = OneNode("LabelEncoder", {Info("x", format::kInt64, {})},
                                 {cut_off("keys_tensor"), cut_off("values_tensor")}, 21);
  EXPECT_NE(
      ErrorOfCall(In("ai.onnx.ml", 4, labels), {zeros({1}, DType::kI64)}).find("the file has 8"),
      std::string::npos);
}

TEST_F(OnnxBadFiles, RegionsFarOutsideOfTheInput) {
  for (float far : {1e30f, std::numeric_limits<float>::quiet_NaN()}) {
    format::Model model = OneNode(
        "Resize", {Info("x", format::kFloat, {})},
        {TextAttribute("mode", "linear"),
         TextAttribute("coordinate_transformation_mode", "tf_crop_and_resize")},
        13, {Initial<float>("region", {far, 2 * far}, {2}), Initial<int64_t>("sizes", {3}, {1})});
    model.graph.nodes[0].inputs = {"x", "region", "", "sizes"};
    EXPECT_NE(ErrorOfCall(model, {ones({2})}).find("element 0 comes from "), std::string::npos);
  }
}

constexpr const char* kTooMany = "one call runs more than 262144 nodes";

/// Each calls the next one twice.
TEST_F(OnnxBadFiles, FunctionsThatMultiply) {
  constexpr int kFunctions = 60;
  format::Model model = Linear();
  for (int i = 0; i < kFunctions; ++i) {
    format::Function function;
    function.name = fmt::format("f{}", i);
    function.domain = "own";
    function.inputs = {"a"};
    function.outputs = {"c"};
    std::string next = i + 1 < kFunctions ? fmt::format("f{}", i + 1) : "Neg";
    function.nodes = {Node(next, {"a"}, {"b"}), Node(next, {"b"}, {"c"})};
    function.opsets.push_back({"", 21});
    if (i + 1 < kFunctions) {
      for (format::Node& node : function.nodes) node.domain = "own";
    }
    model.functions.push_back(std::move(function));
  }
  model.graph.nodes.back().op = "f0";
  model.graph.nodes.back().domain = "own";
  EXPECT_NE(ErrorOfCall(model, {ones({1, 4})}).find(kTooMany), std::string::npos);
}

/// The body of a loop of 1000 iterations that carries a sequence, with `depth` loops in it.
format::Graph SequenceLoop(int depth) {
  format::Graph body;
  const std::string in = fmt::format("in{}", depth), out = fmt::format("out{}", depth);
  body.inputs = {Info(fmt::format("i{}", depth), format::kInt64, {}),
                 Info(fmt::format("go{}", depth), format::kBool, {}), Info(in, format::kFloat, {})};
  body.outputs = {Info(fmt::format("go{}", depth), format::kBool, {}),
                  Info(out, format::kFloat, {})};
  if (depth == 0) {
    body.nodes = {Node("Identity", {in}, {out})};
  } else {
    body.nodes = {
        Node("Loop", {"count", "", in}, {out}, {GraphAttribute("body", SequenceLoop(depth - 1))})};
  }
  return body;
}

TEST_F(OnnxBadFiles, LoopsThatMultiply) {
  format::Graph graph;
  graph.inputs = {Info("x", format::kFloat, {})};
  graph.outputs = {Info("y", format::kFloat, {})};
  graph.initializers = {Initial<int64_t>("count", {1000}, {})};
  graph.nodes = {
      Node("SequenceConstruct", {"x"}, {"list"}),
      Node("Loop", {"count", "", "list"}, {"all"}, {GraphAttribute("body", SequenceLoop(2))}),
      Node("SequenceLength", {"all"}, {"y"})};
  EXPECT_NE(ErrorOfCall(ModelOf(std::move(graph)), {tensor(1.0)}).find(kTooMany),
            std::string::npos);
}

/// A loop inside of a loop and so on, of which none is a `loop` or a `while`: each appends to a
/// vector, and stops after its first iteration.
format::Graph AppendingLoop(int depth) {
  format::Graph body;
  const std::string in = fmt::format("in{}", depth), out = fmt::format("out{}", depth),
                    mid = depth == 0 ? in : fmt::format("mid{}", depth);
  body.inputs = {Info(fmt::format("i{}", depth), format::kInt64, {}),
                 Info(fmt::format("go{}", depth), format::kBool, {}), Info(in, format::kFloat, {})};
  if (depth > 0) {
    body.nodes.push_back(
        Node("Loop", {"count", "", in}, {mid}, {GraphAttribute("body", AppendingLoop(depth - 1))}));
  }
  body.nodes.push_back(Node("Concat", {mid, "one"}, {out}, {IntAttribute("axis", 0)}));
  body.outputs = {Info("no", format::kBool, {}), Info(out, format::kFloat, {})};
  return body;
}

TEST_F(OnnxBadFiles, WaysOfNestedLoopsAreNotMultiplied) {
  constexpr int kDepth = 20;
  format::Graph graph;
  graph.inputs = {Info("x", format::kFloat, {{1, ""}})};
  graph.outputs = {Info("y", format::kFloat, {{-1, ""}})};
  graph.initializers = {Initial<int64_t>("count", {5}, {}), Initial<float>("one", {1}, {1}),
                        Initial<uint8_t>("no", {0}, {})};
  graph.initializers[2].element = format::kBool;
  graph.nodes = {
      Node("Loop", {"count", "", "x"}, {"y"}, {GraphAttribute("body", AppendingLoop(kDepth))})};
  EXPECT_EQ(ErrorOfCall(ModelOf(std::move(graph)), {ones({1})}), "it ran");
}

constexpr const char* kTooMuchText = "268435456 bytes of strings";

format::Model Texts(std::vector<format::Node> nodes, int64_t opset = 21) {
  format::Graph graph;
  graph.inputs = {Info("s0", format::kString, {{1, ""}})};
  graph.outputs = {Info(nodes.back().outputs[0], format::kString, {})};
  graph.nodes = std::move(nodes);
  return ModelOf(std::move(graph), opset);
}

TEST_F(OnnxBadFiles, StringsThatDouble) {
  std::vector<format::Node> nodes;
  for (int i = 0; i < 40; ++i) {
    std::string in = fmt::format("s{}", i);
    nodes.push_back(Node("StringConcat", {in, in}, {fmt::format("s{}", i + 1)}));
  }
  EXPECT_NE(ErrorOfCall(Texts(std::move(nodes)), {Any(AnyList{"a"})}).find(kTooMuchText),
            std::string::npos);
}

TEST_F(OnnxBadFiles, ManyStringsOfOne) {
  for (const char* op : {"Expand", "Tile"}) {
    format::Model model = Texts({Node(op, {"s0", "count"}, {"y"})});
    model.graph.initializers = {Initial<int64_t>("count", {1 << 20}, {1})};
    EXPECT_NE(ErrorOfCall(model, {Any(AnyList{std::string(1000, 'a')})}).find(kTooMuchText),
              std::string::npos);
  }
}

format::Model Matches(const std::string& pattern) {
  format::Attribute attribute;
  attribute.name = "pattern";
  attribute.kind = format::Attribute::kString;
  attribute.s = pattern;
  return Texts({Node("RegexFullMatch", {"s0"}, {"y"}, {attribute})});
}

TEST_F(OnnxBadFiles, RegularExpressionsTakeTimeByLength) {
  EXPECT_EQ(ErrorOfCall(Matches("(a|b)*c"), {Any(AnyList{std::string(300000, 'a')})}), "it ran");
  EXPECT_EQ(ErrorOfCall(Matches("(a*)*b"), {Any(AnyList{std::string(1000, 'a')})}), "it ran");
}

TEST_F(OnnxBadFiles, LargeRegularExpressions) {
  for (const std::string& pattern :
       {std::string("((((a{100}){100}){100}){100})"), std::string(100000, '('),
        std::string(100000, 'a'), std::string("a{99999999999999999999}"), std::string("a{1000000}"),
        std::string("(a)\\1")}) {
    EXPECT_NE(ErrorOfCall(Matches(pattern), {Any(AnyList{"a"})}).find("pattern '"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace hammock::onnx
