#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <vector>

#include "hammock/hammock.h"
#include "hammock/jit/to_backend.h"
#include "hammock/nn.h"
#include "ir/expect_error.h"
#include "nn/lowered_case.h"
#include "nn/named_cases.h"
#include "nn/pytorch_values.h"
#include "support/tensor_matchers.h"

namespace hammock::nn {
namespace {

const Json& Expected() {
  static const Json json = ReadJson("pytorch.json");
  return json;
}

template <class L>
Case Unary(L layer) {
  return {layer, [=](const Tensors& in) { return Tensors{layer(in[0])}; }};
}
template <class L>
Case Pairs(L layer) {
  return {layer, [=](const Tensors& in) { return Tensors{layer(in[0], in[1])}; }};
}
Tensors Flat(const Tensor& result) { return {result}; }
template <class... Parts>
Tensors Flat(const std::tuple<Parts...>& result) {
  Tensors all;
  auto add = [&](const Tensors& part) { all.insert(all.end(), part.begin(), part.end()); };
  std::apply([&](const Parts&... part) { (add(Flat(part)), ...); }, result);
  return all;
}
template <class L>
Case Listed(L layer) {
  return {layer, [=](const Tensors& in) { return Flat(layer(in[0])); }};
}
Case Attention(MultiheadAttention layer) {
  return {layer, [=](const Tensors& in) {
            auto [output, weights] = layer(in[0], in[1], in[2]);
            return Tensors{output, weights};
          }};
}

TransformerLayerOptions Small() {
  return {.d_model = 4, .nhead = 2, .dim_feedforward = 6, .dropout = 0};
}
TransformerLayerOptions Other() {
  TransformerLayerOptions other = Small();
  other.activation = "gelu";
  other.batch_first = other.norm_first = true;
  return other;
}

Cases Layers() {
  return {
      {"linear", [] { return Unary(Linear(4, 3)); }},
      {"linear_no_bias", [] { return Unary(Linear(4, 3, false)); }},
      {"bilinear", [] { return Pairs(Bilinear(3, 4, 2)); }},
      {"conv1d",
       [] {
         return Unary(Conv1d(
             {.in_channels = 2, .out_channels = 4, .kernel_size = 3, .stride = 2, .padding = 1}));
       }},
      {"conv2d",
       [] {
         return Unary(Conv2d({.in_channels = 4,
                              .out_channels = 6,
                              .kernel_size = {3, 2},
                              .stride = {2, 1},
                              .padding = {1, 0},
                              .groups = 2}));
       }},
      {"conv2d_same",
       [] {
         return Unary(Conv2d({.in_channels = 2,
                              .out_channels = 3,
                              .kernel_size = 4,
                              .dilation = 2,
                              .bias = false,
                              .same = true}));
       }},
      {"conv2d_reflect",
       [] {
         return Unary(Conv2d({.in_channels = 1,
                              .out_channels = 2,
                              .kernel_size = 3,
                              .padding = 1,
                              .padding_mode = "reflect"}));
       }},
      {"conv2d_circular",
       [] {
         return Unary(Conv2d({.in_channels = 1,
                              .out_channels = 2,
                              .kernel_size = 3,
                              .padding = {1, 2},
                              .padding_mode = "circular"}));
       }},
      {"conv3d",
       [] { return Unary(Conv3d({.in_channels = 1, .out_channels = 2, .kernel_size = 2})); }},
      {"conv_transpose1d",
       [] {
         return Unary(ConvTranspose1d({.in_channels = 2,
                                       .out_channels = 3,
                                       .kernel_size = 3,
                                       .stride = 2,
                                       .output_padding = 1}));
       }},
      {"conv_transpose2d",
       [] {
         return Unary(ConvTranspose2d({.in_channels = 2,
                                       .out_channels = 4,
                                       .kernel_size = 3,
                                       .stride = 2,
                                       .padding = 1,
                                       .groups = 2}));
       }},
      {"conv_transpose3d",
       [] {
         return Unary(ConvTranspose3d(
             {.in_channels = 1, .out_channels = 2, .kernel_size = 2, .bias = false}));
       }},
      {"embedding",
       [] {
         return Unary(Embedding({.num_embeddings = 5, .embedding_dim = 3, .padding_idx = 1}));
       }},
      {"embedding_bag",
       [] {
         return Unary(EmbeddingBag({.num_embeddings = 5, .embedding_dim = 3, .mode = "sum"}));
       }},
      {"batch_norm1d", [] { return Unary(BatchNorm1d(3)); }},
      {"batch_norm2d", [] { return Unary(BatchNorm2d({.num_features = 3, .momentum = 0.3})); }},
      {"batch_norm2d_eval",
       [] {
         BatchNorm2d layer(3);
         layer->eval();
         return Unary(layer);
       }},
      {"batch_norm2d_average",
       [] { return Unary(BatchNorm2d({.num_features = 3, .momentum = std::nullopt})); }},
      {"batch_norm3d_plain",
       [] {
         return Unary(
             BatchNorm3d({.num_features = 2, .affine = false, .track_running_stats = false}));
       }},
      {"instance_norm1d", [] { return Unary(InstanceNorm1d(3)); }},
      {"instance_norm2d", [] { return Unary(InstanceNorm2d({.num_features = 3})); }},
      {"layer_norm",
       [] {
         return Unary(LayerNorm(Sizes{3, 4}));
       }},
      {"group_norm", [] { return Unary(GroupNorm(2, 4)); }},
      {"prelu", [] { return Unary(PReLU(3)); }},
      {"rrelu_eval",
       [] {
         RReLU layer;
         layer->eval();
         return Unary(layer);
       }},
      {"rnn",
       [] {
         return Listed(
             RNN({.input_size = 3, .hidden_size = 4, .num_layers = 2, .nonlinearity = "relu"}));
       }},
      {"gru",
       [] {
         return Listed(
             GRU({.input_size = 3, .hidden_size = 4, .batch_first = true, .bidirectional = true}));
       }},
      {"gru_no_batch",
       [] { return Listed(GRU({.input_size = 3, .hidden_size = 4, .bias = false})); }},
      {"lstm",
       [] {
         return Listed(
             LSTM({.input_size = 3, .hidden_size = 4, .num_layers = 2, .bidirectional = true}));
       }},
      {"lstm_projected",
       [] { return Listed(LSTM({.input_size = 3, .hidden_size = 4, .proj_size = 2})); }},
      {"rnn_cell", [] { return Unary(RNNCell(3, 4)); }},
      {"gru_cell", [] { return Unary(GRUCell(3, 4)); }},
      {"lstm_cell", [] { return Listed(LSTMCell(3, 4)); }},
      {"attention", [] { return Attention(MultiheadAttention(4, 2)); }},
      {"attention_sizes",
       [] {
         return Attention(MultiheadAttention({.embed_dim = 4,
                                              .num_heads = 2,
                                              .add_bias_kv = true,
                                              .add_zero_attn = true,
                                              .kdim = 3,
                                              .vdim = 2,
                                              .batch_first = true}));
       }},
      {"encoder_layer", [] { return Unary(TransformerEncoderLayer(Small())); }},
      {"encoder_layer_gelu", [] { return Unary(TransformerEncoderLayer(Other())); }},
      {"encoder", [] { return Unary(TransformerEncoder(Small(), 2, true)); }},
      {"decoder_layer", [] { return Pairs(TransformerDecoderLayer(Small())); }},
      {"decoder", [] { return Pairs(TransformerDecoder(Small(), 2)); }},
      {"transformer",
       [] {
         return Pairs(Transformer({.d_model = 4,
                                   .nhead = 2,
                                   .num_encoder_layers = 1,
                                   .num_decoder_layers = 1,
                                   .dim_feedforward = 6,
                                   .dropout = 0}));
       }},
      {"sequential",
       [] {
         return Unary(Sequential(Conv2d({.in_channels = 1, .out_channels = 2, .kernel_size = 3}),
                                 BatchNorm2d(2), ReLU(), MaxPool2d(2), Flatten(), Linear(8, 3)));
       }},
  };
}

Tensors InputsOf(const std::string& name, const Json& expected) {
  Tensors inputs;
  for (size_t i = 0; i < expected["inputs"].size(); ++i) {
    Dims sizes = DimsOf(expected["inputs"][i]);
    if (name.starts_with("embedding")) {
      inputs.push_back(reshape(arange(6) * 2 % 5, sizes));
    } else {
      inputs.push_back(Values(sizes, 100 + static_cast<int64_t>(i), 2));
    }
  }
  return inputs;
}

TEST(Layers, HavePyTorchsKeysAndGiveItsValues) {
  auto layers = ByName(Layers());
  for (const auto& [name, expected] : Expected()["layers"].items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(layers.contains(name));
    Case test = layers[name]();
    test.module->to(DType::kF64);
    Json keys = Json::array();
    for (const auto& [key, tensor] : test.module->state_dict()) {
      keys.push_back({key, tensor.sizes().vec()});
    }
    EXPECT_EQ(keys, expected["keys"]);
    Fill(*test.module);
    Tensors inputs = InputsOf(name, expected);
    Tensors outputs = test.run(inputs);
    ASSERT_EQ(outputs.size(), expected["outputs"].size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].sizes(), DimsOf(expected["outputs"][i]["shape"]));
      ExpectValues(outputs[i], expected["outputs"][i]["values"], "output");
    }
    for (const auto& [key, buffer] : test.module->named_buffers()) {
      ExpectValues(buffer, expected["buffers"][key], key);
    }
    // By name, too, as delegates and importers call it.
    if (test.module->find_method("forward")) {
      Fill(*test.module);
      std::vector<Any> args(inputs.begin(), inputs.end());
      Any boxed = test.module->run_method("forward", args);
      Tensor first =
          boxed.kind() == Any::Kind::kTensor ? boxed.ToTensor() : boxed.ToList()[0].ToTensor();
      if (!name.ends_with("average"))
        ExpectValues(first, expected["outputs"][0]["values"], "boxed");
    }
  }
  EXPECT_EQ(layers.size(), Expected()["layers"].size());
}

TEST(Layers, GiveTheSameWhenTheyAreLowered) {
  auto layers = ByName(Layers());
  for (const auto& [name, expected] : Expected()["layers"].items()) {
    SCOPED_TRACE(name);
    Case test = layers[name]();
    test.module->to(DType::kF64);
    Fill(*test.module);
    const Tensors inputs = InputsOf(name, expected);
    ExpectSameByNameWhenLowered(test, inputs);
    ExpectSameByHandleWhenLowered(test, inputs);
  }
}

TEST(Layers, ThatAreReplacedTakeAndReturnTuplesInTuples) {
  // The parts of its tuples one by one, as methods by name have them; a state may be missing.
  struct Echo : Module {
    explicit Echo(bool all) : Module("Echo") {
      const std::string results = all ? "(Tensor, Tensor, Tensor)" : "(Tensor, Tensor)";
      define("forward(Tensor x, Tensor? h=None, Tensor? c=None) -> " + results,
             [all](Module&, const std::vector<Any>& args) -> Any {
               AnyList parts;
               for (const Any& arg : args) parts.push_back(arg.IsNone() ? args[0] : arg);
               if (!all) parts.pop_back();
               return Any::Tuple(parts);
             });
    }
  };
  struct Net : Module {
    Net() : Module("Net") { lstm = register_module("lstm", LSTM(2, 2)); }
    LSTM lstm = nullptr;
  } net;
  net.replace_submodule("lstm", std::make_shared<Echo>(true));
  const Tensor x = ones({1, 1, 2}), h = x * 2.0f, c = x * 3.0f;
  auto [output, last] = net.lstm(x, LSTMState(h, c));
  EXPECT_TENSOR_EQ(output, x);
  EXPECT_TENSOR_EQ(std::get<0>(last), h);
  EXPECT_TENSOR_EQ(std::get<1>(last), c);
  EXPECT_TENSOR_EQ(std::get<1>(std::get<1>(net.lstm(x, std::optional<LSTMState>()))), x);
  EXPECT_TENSOR_EQ(std::get<0>(std::get<1>(net.lstm(x))), x);
  net.replace_submodule("lstm", std::make_shared<Echo>(false));
  EXPECT_ERROR(net.lstm(x), ValueError, "gives 2 values, needs 3");
}

TEST(Layers, OfATransformerCanBeLowered) {
  Transformer transformer({.d_model = 4,
                           .nhead = 2,
                           .num_encoder_layers = 2,
                           .num_decoder_layers = 1,
                           .dim_feedforward = 6,
                           .dropout = 0});
  const Device device("cpu");  // where the delegate runs
  transformer->to(device);
  const Tensor source = Values({3, 1, 4}, 1).to(DType::kF32).to(device),
               target = source.slice(0, 0, 2);
  const Tensor expected = transformer(source, target);
  for (const char* path :
       {"encoder", "encoder.layers.0", "encoder.layers.1.self_attn", "encoder.layers.0.linear1",
        "decoder", "decoder.layers.0", "decoder.layers.0.multihead_attn"}) {
    SCOPED_TRACE(path);
    Transformer copy = clone(transformer);
    std::vector<Any> args;
    ModulePtr part = copy->get_submodule(path);
    HookHandle hook = part->register_forward_pre_hook(
        [&](Module&, const Tensors& given) { args.assign(given.begin(), given.end()); });
    copy(source, target);
    hook.remove();
    if (part->class_name() == "MultiheadAttention") {
      args.insert(args.end(), {Any(), Any(false)});  // it is called without a mask, for no weights
    }
    ModulePtr lowered = jit::to_backend("hammock", *part, {{"forward", AnyDict()}},
                                        {.examples = {{"forward", {.args = args}}}});
    int calls = 0;
    lowered->register_forward_hook([&](Module&, const Tensors&, Tensors&) { ++calls; });
    copy->replace_submodule(path, lowered);
    EXPECT_TENSOR_NEAR(copy(source, target).detach(), expected.detach());
    EXPECT_EQ(calls, 1);
  }
}

TEST(Layers, WithoutParametersGivePyTorchsValues) {
  std::map<std::string, std::function<Function()>> layers = {
      {"ReLU", [] { return ReLU(); }},
      {"ReLU6", [] { return ReLU6(); }},
      {"GELU", [] { return GELU(); }},
      {"GELU_tanh", [] { return GELU("tanh"); }},
      {"SiLU", [] { return SiLU(); }},
      {"Mish", [] { return Mish(); }},
      {"SELU", [] { return SELU(); }},
      {"Hardswish", [] { return Hardswish(); }},
      {"Hardsigmoid", [] { return Hardsigmoid(); }},
      {"LogSigmoid", [] { return LogSigmoid(); }},
      {"Sigmoid", [] { return Sigmoid(); }},
      {"Softsign", [] { return Softsign(); }},
      {"Tanh", [] { return Tanh(); }},
      {"Tanhshrink", [] { return Tanhshrink(); }},
      {"ELU", [] { return ELU(0.5); }},
      {"CELU", [] { return CELU(0.5); }},
      {"Softplus", [] { return Softplus(2, 1); }},
      {"LeakyReLU", [] { return LeakyReLU(0.2); }},
      {"Hardtanh", [] { return Hardtanh(-0.5, 1); }},
      {"Threshold", [] { return Threshold(0.1, 7); }},
      {"Softshrink", [] { return Softshrink(0.3); }},
      {"Hardshrink", [] { return Hardshrink(0.3); }},
      {"GLU", [] { return GLU(1); }},
      {"Softmax", [] { return Softmax(1); }},
      {"Softmin", [] { return Softmin(1); }},
      {"LogSoftmax", [] { return LogSoftmax(1); }},
      {"Softmax2d", [] { return Softmax2d(); }},
      {"MaxPool2d", [] { return MaxPool2d({.kernel_size = 3, .stride = 2, .padding = 1}); }},
      {"AvgPool2d",
       [] { return AvgPool2d({.kernel_size = 2, .padding = 1, .count_include_pad = false}); }},
      {"AdaptiveAvgPool2d",
       [] {
         return AdaptiveAvgPool2d({3, -1});
       }},
      {"AdaptiveMaxPool2d", [] { return AdaptiveMaxPool2d(2); }},
      {"ConstantPad2d",
       [] {
         return ConstantPad2d({1, 0, 2, 1}, 1.5);
       }},
      {"ZeroPad2d", [] { return ZeroPad2d(1); }},
      {"ReflectionPad2d", [] { return ReflectionPad2d(1); }},
      {"ReplicationPad2d",
       [] {
         return ReplicationPad2d({1, 2, 0, 1});
       }},
      {"Upsample", [] { return Upsample({.scale_factor = {{2.0}}, .mode = "bilinear"}); }},
      {"PixelShuffle", [] { return PixelShuffle(2); }},
      {"PixelUnshuffle", [] { return PixelUnshuffle(2); }}};
  for (const auto& [name, expected] : Expected()["unary"].items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(layers.contains(name));
    Tensor output = layers[name]()(Values({1, 4, 4, 4}, 7, 6));
    EXPECT_EQ(output.sizes(), DimsOf(expected["shape"]));
    ExpectValues(output, expected["values"], "output");
  }
  EXPECT_EQ(layers.size(), Expected()["unary"].size());
}

TEST(Losses, GivePyTorchsValues) {
  Tensor scores = Values({4, 3}, 1, 4), other = Values({4, 3}, 2, 4), third = Values({4, 3}, 4, 4);
  Tensor probabilities = abs(Values({4, 3}, 3)), ones_and_zeros = other.gt(0).to(DType::kF64);
  Tensor labels = tensor(std::vector<int64_t>{0, 2, 1, 2});
  Tensor signs = tensor(std::vector<double>{1, -1, -1, 1});
  Tensor lists = tensor(std::vector<int64_t>{0, 2, -1, 0, 2, -1, 0, 2, -1, 0, 2, -1}, {4, 3});
  Tensor weight = tensor(std::vector<double>{1, 2, 0.5}),
         positive = tensor(std::vector<double>{1, 2, 3});
  std::map<std::string, Tensor> losses = {
      {"L1Loss", L1Loss()(scores, other)},
      {"MSELoss", MSELoss("sum")(scores, other)},
      {"SmoothL1Loss", SmoothL1Loss("mean", 0.5)(scores, other)},
      {"HuberLoss", HuberLoss("mean", 0.5)(scores, other)},
      {"KLDivLoss", KLDivLoss("batchmean")(scores, probabilities)},
      {"SoftMarginLoss", SoftMarginLoss()(scores, sign(other))},
      {"HingeEmbeddingLoss", HingeEmbeddingLoss()(scores, sign(other))},
      {"CrossEntropyLoss",
       CrossEntropyLoss({.weight = weight, .label_smoothing = 0.1})(scores, labels)},
      {"NLLLoss", NLLLoss({.ignore_index = 1})(scores, labels)},
      {"BCELoss", BCELoss()(probabilities, ones_and_zeros)},
      {"BCEWithLogitsLoss", BCEWithLogitsLoss({.pos_weight = positive})(scores, ones_and_zeros)},
      {"MultiLabelSoftMarginLoss", MultiLabelSoftMarginLoss()(scores, ones_and_zeros)},
      {"MultiMarginLoss", MultiMarginLoss({.p = 2})(scores, labels)},
      {"MultiLabelMarginLoss", MultiLabelMarginLoss()(scores, lists)},
      {"PoissonNLLLoss", PoissonNLLLoss()(scores, probabilities)},
      {"GaussianNLLLoss", GaussianNLLLoss()(scores, other, probabilities)},
      {"MarginRankingLoss", MarginRankingLoss(0.5)(scores, other, sign(third))},
      {"CosineEmbeddingLoss", CosineEmbeddingLoss(0.1)(scores, other, signs)},
      {"TripletMarginLoss", TripletMarginLoss({.p = 1})(scores, other, third)}};
  for (const auto& [name, expected] : Expected()["losses"].items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(losses.contains(name));
    EXPECT_NEAR(losses[name].item<double>(), expected.get<double>(), 1e-9);
  }
  EXPECT_EQ(losses.size(), Expected()["losses"].size());
}

TEST(Losses, RefuseWhatHasNoMeaning) {
  EXPECT_THROW_MESSAGE(MSELoss("average"), ValueError, "MSELoss: reduction 'average'");
  Tensor x = ones({2});
  EXPECT_THROW_MESSAGE(MSELoss()(x, x, x), ValueError,
                       "MSELoss: called with 3 tensors, expected 2");
}

TEST(Layers, RefuseWhatHasNoMeaning) {
  EXPECT_THROW_MESSAGE(Conv2d({.in_channels = 3, .out_channels = 4, .kernel_size = 3, .groups = 2}),
                       ValueError, "3 channels in and 4 out cannot be parted into 2 groups");
  EXPECT_THROW_MESSAGE(Conv2d({.in_channels = 3, .out_channels = 4, .kernel_size = {1, 2, 3}}),
                       ValueError, "kernel_size has 3 sizes, expected 2");
  EXPECT_THROW_MESSAGE(Dropout(1.5), ValueError, "p is 1.5");
  EXPECT_THROW_MESSAGE(GroupNorm(3, 4), ValueError, "4 channels cannot be parted into 3 groups");
  EXPECT_THROW_MESSAGE(MultiheadAttention(5, 2), ValueError,
                       "5 features cannot be parted into 2 heads");
  EXPECT_THROW_MESSAGE(BatchNorm2d(3)(ones({2, 3})), ValueError,
                       "BatchNorm2d: the input is f32[2,3], expected 4 dims");
}

TEST(Layers, WhatTheyRecordBelongsToTheLineOfTheCall) {
  Linear layer(4, 3);
  Tensor x = ones({2, 4});
  std::string line = std::to_string(__LINE__ + 1);
  std::string summary = layer(x).summary();
  EXPECT_NE(summary.find("layers_test.cpp:" + line), std::string::npos) << summary;
}

TEST(Dropout, IsThereOnlyWhileTraining) {
  Dropout layer(0.5);
  Tensor x = ones({1000});
  double kept = (layer(x).ne(0)).to(DType::kF32).mean().item<double>();
  EXPECT_NEAR(kept, 0.5, 0.1);
  layer->eval();
  EXPECT_TRUE(layer(x).host().SameBits(x.host()));
}

}  // namespace
}  // namespace hammock::nn
