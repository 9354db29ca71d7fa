// Values and gradients of modules against those of PyTorch in modules.json.

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "nn/lowered_case.h"
#include "nn/named_cases.h"
#include "nn/pytorch_values.h"
#include "support/tensor_matchers.h"

namespace hammock::nn {
namespace {

const Json& Expected() {
  static const Json json = ReadJson("modules.json");
  return json;
}

Tensor Samples(const Dims& sizes) { return Values(sizes, 50) + 0.5; }

template <class L>
Case Plain(L layer) {
  return {layer, [=](const Tensors& in) { return Tensors{layer(in[0])}; }};
}
Case Pair(Loss layer) {
  return {nullptr, [=](const Tensors& in) { return Tensors{layer(in[0], in[1])}; }};
}

Tensors InputsOf(const Json& expected, int64_t seed) {
  Tensors inputs;
  for (const Json& sizes : expected["inputs"]) inputs.push_back(Values(DimsOf(sizes), seed++, 2));
  return inputs;
}

void ExpectCase(const Case& test, const Json& expected, int64_t seed) {
  if (test.module) {
    test.module->to(DType::kF64);
    Fill(*test.module);
  }
  Tensors inputs = InputsOf(expected, seed);
  for (Tensor& input : inputs) input.requires_grad_();
  Tensors outputs = test.run(inputs);
  ASSERT_EQ(outputs.size(), expected["outputs"].size());
  Tensor loss;
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i].sizes(), DimsOf(expected["outputs"][i]["shape"]));
    ExpectValues(outputs[i].detach(), expected["outputs"][i]["values"], "output");
    Tensor part = (outputs[i] * Values(outputs[i].sizes(), 200 + static_cast<int64_t>(i))).sum();
    loss = loss.defined() ? loss + part : part;
  }
  loss.backward();
  for (size_t i = 0; i < inputs.size(); ++i) {
    ExpectValues(inputs[i].grad(), expected["input_grads"][i], "gradient of the input");
  }
  if (!expected.contains("keys")) return;
  Json keys = Json::array();
  for (const auto& [key, tensor] : test.module->state_dict()) {
    keys.push_back({key, tensor.sizes().vec()});
  }
  EXPECT_EQ(keys, expected["keys"]);
  for (const auto& [name, buffer] : test.module->named_buffers()) {
    ExpectValues(buffer, expected["buffers"][name], name);
  }
  for (const auto& [name, parameter] : test.module->named_parameters()) {
    ExpectValues(parameter.grad(), expected["grads"][name], "gradient of " + name);
  }
}

void ExpectAll(const char* section, const std::vector<Cases>& parts, int64_t seed) {
  std::map<std::string, Case (*)()> cases;
  for (const Cases& part : parts) cases.merge(ByName(part));
  for (const auto& [name, expected] : Expected()[section].items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(cases.contains(name));
    ExpectCase(cases[name](), expected, seed);
  }
  EXPECT_EQ(cases.size(), Expected()[section].size());
}

Cases Activations() {
  return {{"ReLU", [] { return Plain(ReLU()); }},
          {"ReLU6", [] { return Plain(ReLU6()); }},
          {"GELU", [] { return Plain(GELU()); }},
          {"SiLU", [] { return Plain(SiLU()); }},
          {"Mish", [] { return Plain(Mish()); }},
          {"SELU", [] { return Plain(SELU()); }},
          {"Hardswish", [] { return Plain(Hardswish()); }},
          {"Hardsigmoid", [] { return Plain(Hardsigmoid()); }},
          {"LogSigmoid", [] { return Plain(LogSigmoid()); }},
          {"Sigmoid", [] { return Plain(Sigmoid()); }},
          {"Softsign", [] { return Plain(Softsign()); }},
          {"Tanh", [] { return Plain(Tanh()); }},
          {"Tanhshrink", [] { return Plain(Tanhshrink()); }},
          {"ELU", [] { return Plain(ELU()); }},
          {"CELU", [] { return Plain(CELU()); }},
          {"Softplus", [] { return Plain(Softplus()); }},
          {"LeakyReLU", [] { return Plain(LeakyReLU()); }},
          {"Hardtanh", [] { return Plain(Hardtanh()); }},
          {"Softshrink", [] { return Plain(Softshrink()); }},
          {"Hardshrink", [] { return Plain(Hardshrink()); }},
          {"GLU", [] { return Plain(GLU()); }},
          {"Softmax", [] { return Plain(Softmax(1)); }},
          {"Softmin", [] { return Plain(Softmin(1)); }},
          {"LogSoftmax", [] { return Plain(LogSoftmax(1)); }},
          {"Softmax2d", [] { return Plain(Softmax2d()); }}};
}

Cases Lines() {
  return {
      {"MaxPool1d", [] { return Plain(MaxPool1d(2)); }},
      {"AvgPool1d", [] { return Plain(AvgPool1d({.kernel_size = 3, .stride = 2, .padding = 1})); }},
      {"AdaptiveAvgPool1d", [] { return Plain(AdaptiveAvgPool1d(4)); }},
      {"AdaptiveMaxPool1d", [] { return Plain(AdaptiveMaxPool1d(4)); }},
      {"LPPool1d", [] { return Plain(LPPool1d({.norm_type = 2, .kernel_size = 3, .stride = 2})); }},
      {"ConstantPad1d",
       [] {
         return Plain(ConstantPad1d({1, 2}, 1.5));
       }},
      {"ZeroPad1d", [] { return Plain(ZeroPad1d(1)); }},
      {"ReflectionPad1d",
       [] {
         return Plain(ReflectionPad1d({1, 2}));
       }},
      {"ReplicationPad1d", [] { return Plain(ReplicationPad1d(2)); }},
      {"CircularPad1d",
       [] {
         return Plain(CircularPad1d({1, 2}));
       }},
      {"Identity", [] { return Plain(Identity()); }},
  };
}

Cases Images() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {
      {"LPPool2d",
       [] {
         return Plain(LPPool2d({.norm_type = 2, .kernel_size = {2, 3}}));
       }},
      {"LPPool2d_inf", [] { return Plain(LPPool2d({.norm_type = kInfinity, .kernel_size = 2})); }},
      {"CircularPad2d",
       [] {
         return Plain(CircularPad2d({1, 2, 0, 1}));
       }},
      {"UpsamplingNearest2d", [] { return Plain(UpsamplingNearest2d({.scale_factor = {{2.0}}})); }},
      {"UpsamplingBilinear2d",
       [] {
         return Plain(UpsamplingBilinear2d({.size = Dims{7, 5}}));
       }},
      {"ChannelShuffle", [] { return Plain(ChannelShuffle(2)); }},
      {"Unflatten",
       [] {
         return Plain(Unflatten(1, {2, 2}));
       }},
      {"Unfold",
       [] {
         return Plain(Unfold({.kernel_size = {2, 3}, .padding = 1, .stride = 2}));
       }},
      {"Fold", [] { return Plain(Fold(4, {.kernel_size = 2})); }},
      {"FractionalMaxPool2d",
       [] {
         return Plain(FractionalMaxPool2d(
             {.kernel_size = 2, .output_size = Sizes{3, 2}, .random_samples = Samples({2, 3, 2})}));
       }},
      {"LocalResponseNorm", [] { return Plain(LocalResponseNorm(3, 0.1)); }},
      {"Flatten", [] { return Plain(Flatten()); }},
  };
}

Cases Volumes() {
  return {
      {"MaxPool3d", [] { return Plain(MaxPool3d(2)); }},
      {"AvgPool3d", [] { return Plain(AvgPool3d({.kernel_size = 2, .stride = 1})); }},
      {"AdaptiveAvgPool3d", [] { return Plain(AdaptiveAvgPool3d(3)); }},
      {"AdaptiveMaxPool3d", [] { return Plain(AdaptiveMaxPool3d(2)); }},
      {"LPPool3d", [] { return Plain(LPPool3d({.norm_type = 2, .kernel_size = 2})); }},
      {"ConstantPad3d",
       [] {
         return Plain(ConstantPad3d({1, 0, 0, 1, 0, 0}, 1.5));
       }},
      {"ZeroPad3d", [] { return Plain(ZeroPad3d(1)); }},
      {"ReflectionPad3d", [] { return Plain(ReflectionPad3d(1)); }},
      {"ReplicationPad3d", [] { return Plain(ReplicationPad3d(1)); }},
      {"CircularPad3d",
       [] {
         return Plain(CircularPad3d({1, 0, 2, 1, 0, 1}));
       }},
      {"FractionalMaxPool3d",
       [] {
         return Plain(FractionalMaxPool3d(
             {.kernel_size = 2, .output_ratio = {{0.5}}, .random_samples = Samples({1, 2, 3})}));
       }},
      {"Upsample", [] { return Plain(Upsample({.scale_factor = {{2.0}}, .mode = "trilinear"})); }},
  };
}

TEST(Modules, OfOneTensorGivePyTorchsValuesAndGradients) {
  ExpectAll("unary", {Activations(), Lines(), Images(), Volumes()}, 7);
}

Case Unpooled(int dims) {
  auto run = [=](const Tensors& in) {
    auto [values, indices] = dims == 1   ? max_pool1d_with_indices(in[0], {2})
                             : dims == 2 ? max_pool2d_with_indices(in[0], {2}, {2})
                                         : max_pool3d_with_indices(in[0], {2});
    if (dims == 1) return Tensors{MaxUnpool1d(2)(values, indices)};
    if (dims == 2) {
      return Tensors{MaxUnpool2d({.kernel_size = 2, .stride = 2})(values, indices)};
    }
    return Tensors{MaxUnpool3d(2)(values, indices)};
  };
  return {nullptr, run};
}

Tensor Labels() { return tensor(std::vector<int64_t>{0, 3, 7, 5}); }

/// Packed in another order, run, and padded again; states follow the input.
template <class L>
Case Packed(L layer) {
  return {layer, [=](const Tensors& in) {
            PackedSequence packed = pack_padded_sequence(in[0], {3, 5, 2}, false, false);
            auto run = [&] {
              if constexpr (std::same_as<L, LSTM>) {
                return in.size() > 1 ? layer(packed, LSTMState(in[1], in[2])) : layer(packed);
              } else {
                return in.size() > 1 ? layer(packed, in[1]) : layer(packed);
              }
            };
            auto [output, state] = run();
            Tensors results = {pad_packed_sequence(output).first};
            if constexpr (std::same_as<L, LSTM>) {
              results.push_back(std::get<0>(state));
              results.push_back(std::get<1>(state));
            } else {
              results.push_back(state);
            }
            return results;
          }};
}

Cases WithState() {
  return {
      {"RMSNorm",
       [] {
         return Plain(RMSNorm(RMSNormOptions{.normalized_shape = {3, 4}, .eps = 1e-5}));
       }},
      {"BatchNorm1d", [] { return Plain(BatchNorm1d(3)); }},
      {"InstanceNorm3d",
       [] { return Plain(InstanceNorm3d({.num_features = 2, .track_running_stats = false})); }},
      {"LinearCrossEntropyLoss",
       [] {
         LinearCrossEntropyLoss loss({.in_features = 3, .num_classes = 8, .bias = true});
         return Case{loss, [=](const Tensors& in) { return Tensors{loss(in[0], Labels())}; }};
       }},
      {"AdaptiveLogSoftmaxWithLoss",
       [] {
         AdaptiveLogSoftmaxWithLoss loss({.in_features = 8,
                                          .n_classes = 9,
                                          .cutoffs = {2, 5},
                                          .div_value = 2,
                                          .head_bias = true});
         return Case{loss, [=](const Tensors& in) {
                       auto [output, mean] = loss(in[0], Labels());
                       return Tensors{output, mean, loss->log_prob(in[0])};
                     }};
       }},
      {"weight_norm", [] { return Plain(weight_norm(Linear(3, 2))); }},
      {"weight_norm_conv",
       [] {
         Conv2d conv({.in_channels = 2, .out_channels = 3, .kernel_size = 2});
         return Plain(weight_norm(conv, "weight", 1));
       }},
      {"spectral_norm", [] { return Plain(spectral_norm(Linear(3, 2), "weight", 2)); }},
      {"spectral_norm_eval",
       [] {
         ConvTranspose2d conv({.in_channels = 2, .out_channels = 3, .kernel_size = 2});
         spectral_norm(conv);
         conv->eval();
         return Plain(conv);
       }},
      {"packed_rnn", [] { return Packed(RNN({.input_size = 3, .hidden_size = 4})); }},
      {"packed_gru",
       [] {
         return Packed(
             GRU({.input_size = 3, .hidden_size = 4, .bias = false, .bidirectional = true}));
       }},
      {"packed_lstm",
       [] {
         return Packed(
             LSTM({.input_size = 3, .hidden_size = 4, .num_layers = 2, .bidirectional = true}));
       }},
      {"packed_lstm_projected",
       [] { return Packed(LSTM({.input_size = 3, .hidden_size = 4, .proj_size = 2})); }},
  };
}

Cases WithoutState() {
  return {
      {"MaxUnpool1d", [] { return Unpooled(1); }},
      {"MaxUnpool2d", [] { return Unpooled(2); }},
      {"MaxUnpool3d", [] { return Unpooled(3); }},
      {"CosineSimilarity", [] { return Pair(CosineSimilarity()); }},
      {"PairwiseDistance", [] { return Pair(PairwiseDistance(3, 1e-6, true)); }},
      {"TripletMarginWithDistanceLoss",
       [] {
         auto cosine = [](const Tensor& a, const Tensor& b) {
           return 1.0 - cosine_similarity(a, b);
         };
         Loss loss =
             TripletMarginWithDistanceLoss({.distance = cosine, .margin = 0.7, .swap = true});
         return Case{nullptr,
                     [=](const Tensors& in) { return Tensors{loss(in[0], in[1], in[2])}; }};
       }},
      {"CTCLoss",
       [] {
         Tensor targets = tensor(std::vector<int64_t>{1, 2, 1, 3, 3, 2}, {2, 3});
         Tensor times = tensor(std::vector<int64_t>{6, 5}), lengths = tensor({3, 2});
         return Case{nullptr, [=](const Tensors& in) {
                       return Tensors{CTCLoss()(log_softmax(in[0], 2), targets, times, lengths)};
                     }};
       }},
  };
}

TEST(Modules, GivePyTorchsKeysValuesAndGradients) {
  ExpectAll("modules", {WithState(), WithoutState()}, 100);
}

/// Packed sequences are no arguments of a module of any class, and `log_prob` is not `forward`.
bool CallsForwardOfTensors(const std::string& name) {
  return !name.starts_with("packed") && name != "AdaptiveLogSoftmaxWithLoss";
}

void ExpectAllSameWhenLowered(const char* section, const std::vector<Cases>& parts, int64_t seed) {
  for (const Cases& part : parts) {
    for (const NamedCase& each : part) {
      if (!CallsForwardOfTensors(each.name)) continue;
      SCOPED_TRACE(each.name);
      Case test = each.make();
      test.module->to(DType::kF64);
      Fill(*test.module);
      const Tensors inputs = InputsOf(Expected()[section][each.name], seed);
      ExpectSameByNameWhenLowered(test, inputs);
      ExpectSameByHandleWhenLowered(test, inputs);
    }
  }
}

TEST(Modules, GiveTheSameWhenTheyAreLowered) {
  ExpectAllSameWhenLowered("unary", {Activations(), Lines(), Images(), Volumes()}, 7);
  ExpectAllSameWhenLowered("modules", {WithState()}, 100);
}

TEST(Dropout, OfChannelsDropsThemWhole) {
  manual_seed(1);
  Tensor x = ones({64, 16, 5});
  Tensor y = Dropout1d(0.25)(x);
  Tensor kept = y.mean(std::vector<int64_t>{-1});
  EXPECT_TENSOR_EQ(y, kept.unsqueeze(-1).expand({64, 16, 5}).clone());
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.08);
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.75, 1e-6);
  EXPECT_EQ(Dropout3d(0.5)(ones({2, 3, 2, 2, 2})).sizes(), (Dims{2, 3, 2, 2, 2}));
  // Without a batch, the first dim are the channels.
  Tensor single = Dropout1d(0.5)(ones({200, 4}));
  EXPECT_TENSOR_EQ(single, single.index({Slice(), Slice(0, 1)}).expand({200, 4}).clone());
  EXPECT_THROW_MESSAGE(Dropout2d()(ones({3})), ValueError, "dropout2d: the input is f32[3]");
}

TEST(Dropout, OfAlphaKeepsMeanAndVariance) {
  manual_seed(2);
  Tensor x = selu(randn({400, 50}));
  Tensor y = AlphaDropout(0.2)(x);
  EXPECT_NEAR(y.mean().item<double>(), x.mean().item<double>(), 0.05);
  EXPECT_NEAR(y.var().item<double>(), x.var().item<double>(), 0.1);
  Tensor channels = FeatureAlphaDropout(0.2)(x.reshape({40, 10, 50}));
  EXPECT_NEAR(channels.var().item<double>(), x.var().item<double>(), 0.2);
  AlphaDropout off(0.5);
  off->eval();
  EXPECT_TENSOR_EQ(off(x), x);
}

TEST(Dropout, EveryKindHasGradients) {
  for (const auto& [name, layer] : std::vector<std::pair<std::string, ModulePtr>>{
           {"1d", Dropout1d()}, {"alpha", AlphaDropout()}, {"feature", FeatureAlphaDropout()}}) {
    SCOPED_TRACE(name);
    Tensor x = randn({2, 3, 4}).requires_grad_();
    (*layer)(x).sum().backward();
    EXPECT_EQ(x.grad().sizes(), x.sizes());
  }
}

TEST(FractionalMaxPool, DrawsItsWindows) {
  FractionalMaxPool2d pool({.kernel_size = 2, .output_ratio = {{0.5}}});
  EXPECT_EQ(pool(randn({2, 3, 8, 6})).sizes(), (Dims{2, 3, 4, 3}));
  EXPECT_EQ(pool(randn({3, 8, 6})).sizes(), (Dims{3, 4, 3}));
  EXPECT_THROW_MESSAGE(FractionalMaxPool2d({.kernel_size = 2}), ValueError,
                       "needs either output_size or output_ratio");
  EXPECT_THROW_MESSAGE(pool(randn({1, 1, 1, 8})), ValueError, "0 windows of 2 do not fit");
}

TEST(AdaptiveLogSoftmax, PredictsTheLikeliest) {
  AdaptiveLogSoftmaxWithLoss loss({.in_features = 8, .n_classes = 9, .cutoffs = {2, 5}});
  Tensor x = randn({5, 8});
  Tensor all = loss->log_prob(x);
  EXPECT_TENSOR_NEAR(exp(all).sum({1}).detach(), ones({5}));
  EXPECT_TENSOR_EQ(loss->predict(x), argmax(all, 1));
  EXPECT_THROW_MESSAGE(
      AdaptiveLogSoftmaxWithLoss({.in_features = 8, .n_classes = 9, .cutoffs = {5, 2}}), ValueError,
      "cutoffs must increase");
}

TEST(ParameterList, IsListedAndIndexed) {
  ParameterList list(ones({2}), zeros({3}));
  list->push_back(ones({1}));
  EXPECT_EQ(list->size(), 3u);
  EXPECT_EQ(list->parameters().size(), 3u);
  EXPECT_TRUE(list->get_tensor("1").is_same((*list)[1]));
  (*list)[0] = (*list)[2];
  EXPECT_EQ(list->parameters().size(), 2u);
  ParameterList twin = clone(list);
  EXPECT_TRUE(twin->get_tensor("1").is_same((*twin)[1]));
  EXPECT_FALSE(twin->get_tensor("1").is_same((*list)[1]));
  EXPECT_TRUE((*twin)[0].is_same((*twin)[2]));
}

TEST(ParameterDict, IsListedAndFound) {
  ParameterDict dict(NamedTensors{{"b", ones({2})}, {"a", zeros({3})}});
  EXPECT_EQ(dict->named_parameters()[0].first, "b");
  EXPECT_TRUE(dict->contains("a"));
  EXPECT_TRUE((*dict)["a"].requires_grad());
  EXPECT_THROW_MESSAGE((*dict)["c"], ValueError, "ParameterDict has no parameter 'c'");
}

TEST(Parametrizations, AreRemovedAndLeaveTheirValue) {
  Linear layer(3, 2);
  Tensor before = layer->weight.detach().clone();
  weight_norm(layer);
  EXPECT_TRUE(is_parametrized(*layer, "weight"));
  EXPECT_FALSE(layer->weight.defined());
  EXPECT_EQ(layer->parameters().size(), 3u);
  remove_parametrizations(*layer, "weight");
  EXPECT_FALSE(is_parametrized(*layer, "weight"));
  EXPECT_TENSOR_NEAR(layer->weight.detach(), before);
  EXPECT_TRUE(layer->weight.requires_grad());
  EXPECT_EQ(layer->parameters().size(), 2u);
  EXPECT_THROW_MESSAGE(remove_parametrizations(*layer, "weight"), ValueError, "has none");
}

TEST(Parametrizations, OfRecurrentLayersLeaveTheOrderOfWeightsAlone) {
  LSTM lstm({.input_size = 3, .hidden_size = 3, .bias = false});
  Tensor x = randn({4, 2, 3});
  Tensor before = std::get<0>(lstm(x)).detach();
  weight_norm(lstm, "weight_ih_l0");
  EXPECT_TENSOR_NEAR(std::get<0>(lstm(x)).detach(), before);
  EXPECT_TENSOR_NEAR(std::get<0>(clone(lstm)(x)).detach(), before);
  remove_parametrizations(*lstm, "weight_ih_l0");
  EXPECT_TENSOR_NEAR(std::get<0>(lstm(x)).detach(), before);
}

TEST(Parametrizations, AreComputedForCallsByTheArrowAndNotForPrinting) {
  Linear layer(3, 2);
  Tensor x = randn({4, 3});
  Tensor before = layer(x).detach();
  weight_norm(layer);
  EXPECT_TENSOR_NEAR(layer->forward(x).detach(), before);
  EXPECT_FALSE(layer->weight.defined());
  LSTM lstm(3, 2);
  Tensor outputs = std::get<0>(lstm(x)).detach();
  weight_norm(lstm, "weight_ih_l0");
  EXPECT_TENSOR_NEAR(std::get<0>(lstm->forward(x)).detach(), outputs);
  std::ostringstream text;
  text << layer << weight_norm(Bilinear(2, 3, 4)) << weight_norm(PReLU(2));
  EXPECT_NE(text.str().find("Linear(in_features=3, out_features=2"), std::string::npos)
      << text.str();
  EXPECT_NE(text.str().find("in2_features=3"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("num_parameters=2"), std::string::npos) << text.str();
}

TEST(Parametrizations, OfTheUserAreChained) {
  struct Symmetric : UnaryModule {
    Symmetric() : UnaryModule("Symmetric") {}
    Tensor forward(const Tensor& x) override { return triu(x) + triu(x, 1).t(); }
  };
  Linear layer(3, 3, false);
  register_parametrization(*layer, "weight", std::make_shared<Symmetric>());
  register_parametrization(*layer, "weight", Tanh());
  Tensor rows = layer(eye(3)).detach();
  EXPECT_TENSOR_EQ(rows, rows.t().contiguous());
  EXPECT_LE(abs(rows).max().item<double>(), 1);
  EXPECT_EQ(layer->state_dict()[0].first, "parametrizations.weight.original");
}

TEST(Parametrizations, TrainTraceAndClone) {
  Sequential net(weight_norm(Linear(3, 4)), ReLU(), spectral_norm(Linear(4, 2)));
  optim::SGD optimizer(net->parameters(), {.lr = 0.1});
  Tensor x = randn({5, 3});
  Tensor before = net(x).detach().clone();
  square(net(x)).mean().backward();
  optimizer.step();
  net->eval();
  Tensor after = net(x).detach().clone();
  EXPECT_GT(abs(after - before).max().item<double>(), 0);
  Sequential twin = clone(net);
  EXPECT_TENSOR_EQ(twin(x).detach(), after);
  EXPECT_NE(twin->parameters()[0].id(), net->parameters()[0].id());
  net->trace("forward", {x});
  EXPECT_TENSOR_EQ(net(x).detach(), after);
}

TEST(Parametrizations, OfATracedModuleAreComputedByItsGraphAlone) {
  Linear layer = spectral_norm(Linear(8, 8));
  Fill(*layer);
  Tensor x = randn({4, 8});
  Linear twin = clone(layer);
  twin->trace("forward", {x});
  for (int i = 0; i < 3; ++i) {  // each call goes on from the direction that the last one has found
    EXPECT_TENSOR_NEAR(twin->run_method("forward", {x}).ToTensor(), layer(x));
  }
}

}  // namespace
}  // namespace hammock::nn
