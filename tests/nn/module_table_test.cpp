// The page docs/nn-modules.md: each class of torch.nn, and what stands for it here.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "fmt/format.h"
#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "nn/pytorch_values.h"
#include "support/tensor_matchers.h"

namespace hammock::nn {
namespace {

/// What stands for a class of PyTorch: a module that calls itself so, made here; or a text.
struct Row {
  std::function<ModulePtr()> make = nullptr;
  std::string text = {};
};

using Rows = std::map<std::string, Row>;

#define HERE(name, ...)                     \
  {                                         \
#name, {                                \
      [] { return ModulePtr(__VA_ARGS__); } \
    }                                       \
  }
#define INSTEAD(name, text)  \
  {                          \
#name, { nullptr, text } \
  }

const ConvOptions kConv{.in_channels = 1, .out_channels = 1, .kernel_size = 1};
const ConvTransposeOptions kTransposed{.in_channels = 1, .out_channels = 1, .kernel_size = 1};
const RNNOptions kRecurrent{.input_size = 1, .hidden_size = 1};
const TransformerLayerOptions kTransformer{.d_model = 2, .nhead = 1, .dim_feedforward = 2};

Rows Activations() {
  return {HERE(CELU, CELU()),
          HERE(ELU, ELU()),
          HERE(GELU, GELU()),
          HERE(GLU, GLU()),
          HERE(Hardshrink, Hardshrink()),
          HERE(Hardsigmoid, Hardsigmoid()),
          HERE(Hardswish, Hardswish()),
          HERE(Hardtanh, Hardtanh()),
          HERE(LeakyReLU, LeakyReLU()),
          HERE(LogSigmoid, LogSigmoid()),
          HERE(LogSoftmax, LogSoftmax(1)),
          HERE(Mish, Mish()),
          HERE(PReLU, PReLU()),
          HERE(RReLU, RReLU()),
          HERE(ReLU, ReLU()),
          HERE(ReLU6, ReLU6()),
          HERE(SELU, SELU()),
          HERE(SiLU, SiLU()),
          HERE(Sigmoid, Sigmoid()),
          HERE(Softmax, Softmax(1)),
          HERE(Softmax2d, Softmax2d()),
          HERE(Softmin, Softmin(1)),
          HERE(Softplus, Softplus()),
          HERE(Softshrink, Softshrink()),
          HERE(Softsign, Softsign()),
          HERE(Tanh, Tanh()),
          HERE(Tanhshrink, Tanhshrink()),
          HERE(Threshold, Threshold(0, 0))};
}

Rows Pooling() {
  return {HERE(AdaptiveAvgPool1d, AdaptiveAvgPool1d(1)),
          HERE(AdaptiveAvgPool2d, AdaptiveAvgPool2d(1)),
          HERE(AdaptiveAvgPool3d, AdaptiveAvgPool3d(1)),
          HERE(AdaptiveMaxPool1d, AdaptiveMaxPool1d(1)),
          HERE(AdaptiveMaxPool2d, AdaptiveMaxPool2d(1)),
          HERE(AdaptiveMaxPool3d, AdaptiveMaxPool3d(1)),
          HERE(AvgPool1d, AvgPool1d(1)),
          HERE(AvgPool2d, AvgPool2d(1)),
          HERE(AvgPool3d, AvgPool3d(1)),
          HERE(FractionalMaxPool2d, FractionalMaxPool2d({.kernel_size = 1, .output_size = 1})),
          HERE(FractionalMaxPool3d, FractionalMaxPool3d({.kernel_size = 1, .output_size = 1})),
          HERE(LPPool1d, LPPool1d({.norm_type = 2, .kernel_size = 1})),
          HERE(LPPool2d, LPPool2d({.norm_type = 2, .kernel_size = 1})),
          HERE(LPPool3d, LPPool3d({.norm_type = 2, .kernel_size = 1})),
          HERE(MaxPool1d, MaxPool1d(1)),
          HERE(MaxPool2d, MaxPool2d(1)),
          HERE(MaxPool3d, MaxPool3d(1)),
          HERE(MaxUnpool1d, MaxUnpool1d(1)),
          HERE(MaxUnpool2d, MaxUnpool2d(1)),
          HERE(MaxUnpool3d, MaxUnpool3d(1))};
}

Rows Shapes() {
  return {HERE(ChannelShuffle, ChannelShuffle(1)),
          HERE(CircularPad1d, CircularPad1d(1)),
          HERE(CircularPad2d, CircularPad2d(1)),
          HERE(CircularPad3d, CircularPad3d(1)),
          HERE(ConstantPad1d, ConstantPad1d(1, 0)),
          HERE(ConstantPad2d, ConstantPad2d(1, 0)),
          HERE(ConstantPad3d, ConstantPad3d(1, 0)),
          HERE(Flatten, Flatten()),
          HERE(Fold, Fold(1, {.kernel_size = 1})),
          HERE(Identity, Identity()),
          HERE(PixelShuffle, PixelShuffle(1)),
          HERE(PixelUnshuffle, PixelUnshuffle(1)),
          HERE(ReflectionPad1d, ReflectionPad1d(1)),
          HERE(ReflectionPad2d, ReflectionPad2d(1)),
          HERE(ReflectionPad3d, ReflectionPad3d(1)),
          HERE(ReplicationPad1d, ReplicationPad1d(1)),
          HERE(ReplicationPad2d, ReplicationPad2d(1)),
          HERE(ReplicationPad3d, ReplicationPad3d(1)),
          HERE(Unflatten, Unflatten(0, {1})),
          HERE(Unfold, Unfold({.kernel_size = 1})),
          HERE(Upsample, Upsample({.size = Dims{1}})),
          HERE(UpsamplingBilinear2d, UpsamplingBilinear2d({.size = Dims{1, 1}})),
          HERE(UpsamplingNearest2d, UpsamplingNearest2d({.size = Dims{1, 1}})),
          HERE(ZeroPad1d, ZeroPad1d(1)),
          HERE(ZeroPad2d, ZeroPad2d(1)),
          HERE(ZeroPad3d, ZeroPad3d(1))};
}

Rows Norms() {
  return {HERE(AlphaDropout, AlphaDropout()),
          HERE(BatchNorm1d, BatchNorm1d(1)),
          HERE(BatchNorm2d, BatchNorm2d(1)),
          HERE(BatchNorm3d, BatchNorm3d(1)),
          HERE(Dropout, Dropout()),
          HERE(Dropout1d, Dropout1d()),
          HERE(Dropout2d, Dropout2d()),
          HERE(Dropout3d, Dropout3d()),
          HERE(FeatureAlphaDropout, FeatureAlphaDropout()),
          HERE(GroupNorm, GroupNorm(1, 1)),
          HERE(InstanceNorm1d, InstanceNorm1d(1)),
          HERE(InstanceNorm2d, InstanceNorm2d(1)),
          HERE(InstanceNorm3d, InstanceNorm3d(1)),
          HERE(LayerNorm, LayerNorm(1)),
          HERE(LocalResponseNorm, LocalResponseNorm(1)),
          HERE(RMSNorm, RMSNorm(1))};
}

Rows Losses() {
  return {HERE(AdaptiveLogSoftmaxWithLoss,
               AdaptiveLogSoftmaxWithLoss({.in_features = 4, .n_classes = 3, .cutoffs = {1}})),
          HERE(BCELoss, BCELoss()),
          HERE(BCEWithLogitsLoss, BCEWithLogitsLoss()),
          HERE(CTCLoss, CTCLoss()),
          HERE(CosineEmbeddingLoss, CosineEmbeddingLoss()),
          HERE(CosineSimilarity, CosineSimilarity()),
          HERE(CrossEntropyLoss, CrossEntropyLoss()),
          HERE(GaussianNLLLoss, GaussianNLLLoss()),
          HERE(HingeEmbeddingLoss, HingeEmbeddingLoss()),
          HERE(HuberLoss, HuberLoss()),
          HERE(KLDivLoss, KLDivLoss()),
          HERE(L1Loss, L1Loss()),
          HERE(LinearCrossEntropyLoss, LinearCrossEntropyLoss(1, 1)),
          HERE(MSELoss, MSELoss()),
          HERE(MarginRankingLoss, MarginRankingLoss()),
          HERE(MultiLabelMarginLoss, MultiLabelMarginLoss()),
          HERE(MultiLabelSoftMarginLoss, MultiLabelSoftMarginLoss()),
          HERE(MultiMarginLoss, MultiMarginLoss()),
          HERE(NLLLoss, NLLLoss()),
          HERE(PairwiseDistance, PairwiseDistance()),
          HERE(PoissonNLLLoss, PoissonNLLLoss()),
          HERE(SmoothL1Loss, SmoothL1Loss()),
          HERE(SoftMarginLoss, SoftMarginLoss()),
          HERE(TripletMarginLoss, TripletMarginLoss()),
          HERE(TripletMarginWithDistanceLoss, TripletMarginWithDistanceLoss())};
}

Rows WithParameters() {
  return {HERE(Bilinear, Bilinear(1, 1, 1)),
          HERE(Conv1d, Conv1d(kConv)),
          HERE(Conv2d, Conv2d(kConv)),
          HERE(Conv3d, Conv3d(kConv)),
          HERE(ConvTranspose1d, ConvTranspose1d(kTransposed)),
          HERE(ConvTranspose2d, ConvTranspose2d(kTransposed)),
          HERE(ConvTranspose3d, ConvTranspose3d(kTransposed)),
          HERE(Embedding, Embedding(1, 1)),
          HERE(EmbeddingBag, EmbeddingBag({.num_embeddings = 1, .embedding_dim = 1})),
          HERE(GRU, GRU(kRecurrent)),
          HERE(GRUCell, GRUCell(1, 1)),
          HERE(LSTM, LSTM(kRecurrent)),
          HERE(LSTMCell, LSTMCell(1, 1)),
          HERE(Linear, Linear(1, 1)),
          HERE(Module, std::make_shared<Module>()),
          HERE(ModuleDict, ModuleDict()),
          HERE(ModuleList, ModuleList()),
          HERE(MultiheadAttention, MultiheadAttention(1, 1)),
          HERE(ParameterDict, ParameterDict()),
          HERE(ParameterList, ParameterList()),
          HERE(RNN, RNN(kRecurrent)),
          HERE(RNNCell, RNNCell(1, 1)),
          HERE(Sequential, Sequential()),
          HERE(Transformer, Transformer({.d_model = 2,
                                         .nhead = 1,
                                         .num_encoder_layers = 1,
                                         .num_decoder_layers = 1,
                                         .dim_feedforward = 2})),
          HERE(TransformerDecoder, TransformerDecoder(kTransformer, 1)),
          HERE(TransformerDecoderLayer, TransformerDecoderLayer(kTransformer)),
          HERE(TransformerEncoder, TransformerEncoder(kTransformer, 1)),
          HERE(TransformerEncoderLayer, TransformerEncoderLayer(kTransformer))};
}

Rows Others() {
  const std::string later =
      "No: a layer says its sizes; `register_parameter(name, std::nullopt)` leaves a value for "
      "later";
  Rows rows = {
      INSTEAD(Buffer, "`Buffer` (`hammock/parameter.h`), of `register_buffer`"),
      INSTEAD(Container, "`Module`; PyTorch's is deprecated"),
      INSTEAD(CrossMapLRN2d, "`nn::LocalResponseNorm`, which PyTorch recommends too"),
      INSTEAD(DataParallel,
              "`distributed::DataParallel` (`hammock/distributed/data_parallel.h`), of one process "
              "for each device; PyTorch's, of one process for all, is deprecated"),
      INSTEAD(LinearCrossEntropyOptions,
              "No: it chooses chunks of an eager computation; a step's "
              "memory is planned by the compiler"),
      INSTEAD(NLLLoss2d, "`nn::NLLLoss`, which takes images; PyTorch's is deprecated"),
      INSTEAD(Parameter, "`Parameter` (`hammock/parameter.h`), of `register_parameter`"),
      INSTEAD(RNNBase, "`nn::RNNBase`, the base of `nn::RNN`, `nn::GRU` and `nn::LSTM`"),
      INSTEAD(RNNCellBase, "`nn::CellBase`, the base of the cells"),
      INSTEAD(SyncBatchNorm,
              "No: each rank has the statistics of its own part of the batch; `nn::BatchNorm2d`"),
      INSTEAD(UninitializedBuffer, later),
      INSTEAD(UninitializedParameter, later),
  };
  for (std::string name : {"BatchNorm", "InstanceNorm", "Conv", "ConvTranspose"}) {
    for (int dims : {1, 2, 3}) rows[fmt::format("Lazy{}{}d", name, dims)] = {nullptr, later};
  }
  rows["LazyLinear"] = {nullptr, later};
  return rows;
}

Rows AllRows() {
  Rows rows;
  for (Rows part :
       {Activations(), Pooling(), Shapes(), Norms(), Losses(), WithParameters(), Others()}) {
    rows.merge(part);
  }
  return rows;
}

TEST(ModuleTable, HasEveryClassOfPyTorch) {
  Rows rows = AllRows();
  const Json classes = ReadJson("modules.json")["classes"];
  for (const Json& name : classes) {
    EXPECT_TRUE(rows.erase(name.get<std::string>()) == 1) << name;
  }
  for (const auto& [name, row] : rows) ADD_FAILURE() << name << " is no class of PyTorch";
}

TEST(ModuleTable, ModulesCallThemselvesAsPyTorchDoes) {
  for (const auto& [name, row] : AllRows()) {
    if (row.make) {
      EXPECT_EQ(row.make()->class_name(), name);
    }
  }
}

TEST(ModuleTable, ModulesAreClonedAsWhatTheyAre) {
  for (const auto& [name, row] : AllRows()) {
    if (!row.make) continue;
    SCOPED_TRACE(name);
    ModulePtr module = row.make(), copy = module->clone();
    EXPECT_TRUE(typeid(*copy) == typeid(*module));
    const NamedTensors state = module->state_dict(), copied = copy->state_dict();
    ASSERT_EQ(copied.size(), state.size());
    for (size_t i = 0; i < state.size(); ++i) {
      EXPECT_EQ(copied[i].first, state[i].first);
      EXPECT_FALSE(copied[i].second.is_same(state[i].second));
      EXPECT_TENSOR_EQ(copied[i].second.detach(), state[i].second.detach());
    }
  }
}

TEST(ModuleTable, IsFreshInTheDocs) {
  Rows rows = AllRows();
  size_t here = static_cast<size_t>(
      std::ranges::count_if(rows, [](const auto& row) { return row.second.make != nullptr; }));
  std::string page = fmt::format(
      "# Modules\nEvery class of `torch.nn` of PyTorch {} and what stands for it here: {} of {} "
      "are "
      "there by their name, with PyTorch's\nvalues and `state_dict` keys. Made by `UPDATE_DOCS=1 "
      "layer_tests`; [training.md](training.md) shows how modules are used.\n\n"
      "| torch.nn | here |\n|---|---|\n",
      ReadJson("modules.json")["version"].get<std::string>(), here, rows.size());
  for (const auto& [name, row] : rows) {
    page += fmt::format("| {} | {} |\n", name, row.make ? fmt::format("`nn::{}`", name) : row.text);
  }
  page +=
      "\nOf `torch.nn.utils`: `weight_norm`, `spectral_norm`, `register_parametrization` "
      "(`hammock/nn/parametrize.h`),\n`pack_padded_sequence`, `pad_packed_sequence`, "
      "`pad_sequence` and their kin (`hammock/nn/packed_sequence.h`), all in `nn`;\n"
      "`clip_grad_norm_` and `clip_grad_value_` are in `optim`.\n";
  std::string path = testing::SourcePath("docs/nn-modules.md");
  if (std::getenv("UPDATE_DOCS")) std::ofstream(path) << page;
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_TRUE(text.str() == page) << "run layer_tests with UPDATE_DOCS=1";
}

}  // namespace
}  // namespace hammock::nn
