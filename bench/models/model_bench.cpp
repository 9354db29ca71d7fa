/// Whole models: milliseconds of a step, of the first one, and the highest memory in use.
///
///   model_bench [--device NAME] [--row TEXT] [--mode recorded|compiled] [--seconds S] [--list]
///
/// One line of JSON for each row and mode. The rows are those of the device, by default `cpu`;
/// --row takes those whose names contain TEXT. compare.py runs it beside the same models in
/// PyTorch.

#include <hammock/nn/quantize.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "models.h"

using namespace bench;

namespace {

/// One step; its result is read where the time is taken.
using Step = std::function<Tensor()>;

struct Row {
  const char* name;
  const char* devices;  ///< for which it is of a sensible size
  bool waits;           ///< each step is waited for, as where text is generated
  Step (*make)(bool compiled);
};

Step Training(std::shared_ptr<nn::Module> module, std::shared_ptr<optim::RuleOptimizer> optimizer,
              bool compiled, std::function<Tensor(const Tensor&)> forward, Tensor x, Tensor labels,
              DType autocast) {
  auto body = [=](const Tensor& inputs, const Tensor& targets) {
    optimizer->zero_grad();
    Tensor loss;
    {
      std::optional<AutocastGuard> guard;
      if (autocast != f32) guard.emplace(autocast);
      loss = cross_entropy(forward(inputs), targets);
    }
    loss.backward();
    optimizer->step();
    return loss.detach();
  };
  mark_step(true);
  if (compiled) {
    return [f = compile(body, {*module, *optimizer}), x, labels, module]() mutable {
      return f(x, labels);
    };
  }
  return [=] {
    Tensor loss;
    step([&] { loss = body(x, labels); });
    return loss;
  };
}

/// A model of text that learns the next token.
template <class Model, class Sizes>
Step TrainText(bool compiled, const Sizes& sizes, int64_t batch, DType autocast) {
  auto model = std::make_shared<Model>(sizes);
  auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 3e-4});
  auto tokens = [&] { return randint(0, sizes.vocabulary, {batch, sizes.context}); };
  return Training(
      model, optimizer, compiled,
      [model](const Tensor& x) { return model->forward(x).flatten(0, 1); }, tokens(),
      tokens().flatten(), autocast);
}

template <int64_t kBatch, int64_t kLength>
Step TrainGpt2(bool compiled) {
  return TrainText<Gpt>(compiled, GptSizes{.context = kLength}, kBatch, bf16);
}

Step TrainSmallGpt(bool compiled) {
  const GptSizes sizes{.width = 256, .heads = 8, .layers = 6, .vocabulary = 8192, .context = 256};
  return TrainText<Gpt>(compiled, sizes, 4, f32);
}

constexpr LlamaSizes kLlama100M = {.width = 768,
                                   .layers = 10,
                                   .heads = 12,
                                   .key_heads = 4,
                                   .inner = 2048,
                                   .vocabulary = 16000,
                                   .context = 256};

Step TrainLlama(bool compiled) { return TrainText<Llama>(compiled, kLlama100M, 32, bf16); }

Step TrainSmallLlama(bool compiled) {
  const LlamaSizes sizes{.width = 256,
                         .layers = 6,
                         .heads = 8,
                         .key_heads = 4,
                         .inner = 704,
                         .vocabulary = 8192,
                         .context = 256};
  return TrainText<Llama>(compiled, sizes, 4, f32);
}

template <ResNet::Depth kDepth, int64_t kBatch, bool kHalf>
Step TrainResNet(bool compiled) {
  auto model = std::make_shared<ResNet>(kDepth);
  auto optimizer = std::make_shared<optim::SGD>(model->parameters(),
                                                optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  return Training(
      model, optimizer, compiled, [model](const Tensor& x) { return model->forward(x); },
      randn({kBatch, 3, 224, 224}), randint(0, 1000, {kBatch}), kHalf ? bf16 : f32);
}

template <int64_t kBatch, bool kHalf>
Step InferResNet18(bool compiled) {
  auto model = std::make_shared<ResNet>(ResNet::Depth::k18);
  model->eval();
  auto body = [model](const Tensor& images) {
    NoGradGuard no_grad;
    std::optional<AutocastGuard> guard;
    if (kHalf) guard.emplace(bf16);
    return model->forward(images);
  };
  Tensor images = randn({kBatch, 3, 224, 224});
  mark_step(true);
  if (compiled) return [f = compile(body, {*model}), images]() mutable { return f(images); };
  return [=] {
    Tensor logits;
    step([&] { logits = body(images); });
    return logits;
  };
}

template <bool kHalf>
Step TrainEncoder(bool compiled) {
  static constexpr int64_t kWidth = 256, kBatch = 16, kLength = 64, kClasses = 10;
  struct Classifier : nn::Module {
    Classifier() : Module("Classifier") {
      for (int i = 0; i < 4; ++i) {
        layers.push_back(register_module("layer" + std::to_string(i),
                                         nn::TransformerEncoderLayer({.d_model = kWidth,
                                                                      .nhead = 4,
                                                                      .dim_feedforward = 4 * kWidth,
                                                                      .dropout = 0,
                                                                      .activation = "gelu",
                                                                      .batch_first = true})));
      }
      head = register_module("head", nn::Linear(kWidth, kClasses));
    }
    Tensor forward(Tensor x) {
      for (auto& layer : layers) x = layer(x);
      return head(x.mean(1));
    }
    std::vector<nn::TransformerEncoderLayer> layers;
    nn::Linear head = nullptr;
  };
  auto model = std::make_shared<Classifier>();
  auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 1e-3});
  return Training(
      model, optimizer, compiled, [model](const Tensor& x) { return model->forward(x); },
      randn({kBatch, kLength, kWidth}), randint(0, kClasses, {kBatch}), kHalf ? bf16 : f32);
}

constexpr LlamaSizes kLlama1B;

template <const LlamaSizes& sizes, DType kWeights>
Step Decode(bool compiled) {
  auto model = std::make_shared<Llama>(sizes);
  model->to(bf16);
  if (kWeights != bf16) {
    nn::quantize_(*model, {.dtype = kWeights, .group = InfoOf(kWeights).bits == 8 ? 0 : 64});
  }
  auto body = [model](const Tensor& token, const Tensor& position) {
    NoGradGuard no_grad;
    return model->Next(token, position);
  };
  mark_step(true);
  struct Text {
    Tensor token = tensor({1}).unsqueeze(0);
    int64_t position = 0;
  };
  auto text = std::make_shared<Text>();
  auto run = [=](auto&& next) {
    Tensor position = tensor({text->position++ % sizes.context});
    return text->token = next(text->token, position);
  };
  if (compiled) return [=, f = compile(body, {*model})]() mutable { return run(f); };
  return [=] {
    return run([&](const Tensor& token, const Tensor& position) {
      Tensor result;
      step([&] { result = body(token, position); });
      return result;
    });
  };
}

// ---- Single layers and ops

template <class Layer>
Step TrainRecurrent(bool compiled) {
  static constexpr int64_t kWidth = 256, kBatch = 32, kLength = 64, kClasses = 10;
  struct Classifier : nn::Module {
    Classifier() : Module("Classifier") {
      layer = register_module(
          "layer", Layer({.input_size = kWidth, .hidden_size = kWidth, .batch_first = true}));
      head = register_module("head", nn::Linear(kWidth, kClasses));
    }
    Layer layer = nullptr;
    nn::Linear head = nullptr;
  };
  auto model = std::make_shared<Classifier>();
  auto optimizer = std::make_shared<optim::SGD>(model->parameters(), optim::SGDOptions{.lr = 0.1});
  return Training(
      model, optimizer, compiled,
      [model](const Tensor& x) { return model->head(std::get<0>(model->layer(x)).select(1, -1)); },
      randn({kBatch, kLength, kWidth}), randint(0, kClasses, {kBatch}), f32);
}

Step Once(bool compiled, std::function<Tensor(const Tensor&)> body, Tensor x) {
  mark_step(true);
  if (compiled) return [f = compile(body), x]() mutable { return f(x); };
  return [=] {
    Tensor result;
    step([&] { result = body(x); });
    return result;
  };
}

Step EmbeddingGradient(bool compiled) {
  Tensor weight = randn({32000, 256}), grad = randn({8192, 256});
  auto body = [=](const Tensor& tokens) {
    Tensor table = weight.detach().requires_grad_();
    embedding(tokens, table).backward(grad);
    return table.grad();
  };
  return Once(compiled, body, randint(0, 32000, {8192}));
}

Tensor Sort(const Tensor& x) { return std::get<0>(sort(x)); }
Tensor Top50(const Tensor& x) { return std::get<0>(topk(x, 50)); }
Tensor CumsumOfRows(const Tensor& x) { return cumsum(x, 1); }
Tensor CumsumOfColumns(const Tensor& x) { return cumsum(x, 0); }
Tensor Softmax(const Tensor& x) { return softmax(x, -1); }
Tensor LayerNorm(const Tensor& x) { return layer_norm(x, {x.size(1)}); }

template <Tensor (*kOp)(const Tensor&), int64_t kRows, int64_t kColumns>
Step OfMatrix(bool compiled) {
  return Once(compiled, kOp, randn({kRows, kColumns}));
}

using Depth = ResNet::Depth;
const Row kRows[] = {
    {"GPT-2 124M training, 8 x 1024, bf16", "cuda", false, TrainGpt2<8, 1024>},
    {"GPT-2 124M training, 1 x 256, bf16", "cuda", false, TrainGpt2<1, 256>},
    {"ResNet-50 training, 64 x 224, bf16", "cuda", false, TrainResNet<Depth::k50, 64, true>},
    {"Llama-style 100M training, 32 x 256, bf16", "cuda", false, TrainLlama},
    {"Llama-style 1B decoding, bf16", "cuda", true, Decode<kLlama1B, bf16>},
    {"Llama-style 1B decoding, i8 weights", "cuda", true, Decode<kLlama1B, i8>},
    {"Llama-style 1B decoding, i4 weights", "cuda", true, Decode<kLlama1B, i4>},
    {"ResNet-18 training, 4 x 224, f32", "cpu", false, TrainResNet<Depth::k18, 4, false>},
    {"ResNet-18 training, 4 x 224, bf16", "cpu", false, TrainResNet<Depth::k18, 4, true>},
    {"ResNet-18 inference, 4 x 224, f32", "cpu", false, InferResNet18<4, false>},
    {"ResNet-18 inference, 4 x 224, bf16", "cpu", false, InferResNet18<4, true>},
    {"encoder training, 16 x 64 x 256, f32", "cpu", false, TrainEncoder<false>},
    {"encoder training, 16 x 64 x 256, bf16", "cpu", false, TrainEncoder<true>},
    {"ResNet-50 training, 4 x 224, f32", "cpu", false, TrainResNet<Depth::k50, 4, false>},
    {"GPT-2-style training, 4 x 256, f32", "cpu", false, TrainSmallGpt},
    {"Llama-style training, 4 x 256, f32", "cpu", false, TrainSmallLlama},
    {"Llama-style 100M decoding, bf16", "cpu", true, Decode<kLlama100M, bf16>},
    {"Llama-style 1B decoding, bf16", "cpu", true, Decode<kLlama1B, bf16>},
    {"Llama-style 1B decoding, i8 weights", "cpu", true, Decode<kLlama1B, i8>},
    {"Llama-style 1B decoding, i4 weights", "cpu", true, Decode<kLlama1B, i4>},
    {"LSTM training, 32 x 64 x 256, f32", "cpu", false, TrainRecurrent<nn::LSTM>},
    {"GRU training, 32 x 64 x 256, f32", "cpu", false, TrainRecurrent<nn::GRU>},
    {"gradient of an embedding, 8192 of 32000 x 256", "cpu", false, EmbeddingGradient},
    {"sort, 64 x 16384", "cpu", false, OfMatrix<Sort, 64, 16384>},
    {"top 50 of 64 x 16384", "cpu", false, OfMatrix<Top50, 64, 16384>},
    {"cumsum of rows, 4096 x 1024", "cpu", false, OfMatrix<CumsumOfRows, 4096, 1024>},
    {"cumsum of columns, 4096 x 1024", "cpu", false, OfMatrix<CumsumOfColumns, 4096, 1024>},
    {"softmax, 4096 x 1024", "cpu", false, OfMatrix<Softmax, 4096, 1024>},
    {"layer norm, 4096 x 1024", "cpu", false, OfMatrix<LayerNorm, 4096, 1024>},
};

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

std::string SideName(bool compiled) {
  const std::string budget = config::GetText("memory_budget");
  return std::string("Hammock, ") + (compiled ? "compiled" : "recorded") +
         (budget.empty() ? "" : ", memory_budget " + budget);
}

nlohmann::json Measure(const Row& row, const Device& device, bool compiled, double seconds) {
  manual_seed(1);
  Step once = row.make(compiled);
  auto run = [&](int steps) {
    const auto start = std::chrono::steady_clock::now();
    Tensor result;
    for (int i = 0; i < steps; ++i) {
      result = once();
      if (row.waits) wait_device_ops();
    }
    wait_device_ops();
    return MillisecondsSince(start) / steps;
  };
  const double first = run(1);
  // Compiled kernels take the place of interpreted ones in the background, and new ones of the
  // optimiser's state come with the second step.
  const auto warm = std::chrono::steady_clock::now();
  do {
    run(3);
  } while (MillisecondsSince(warm) < std::max(2000.0, 100 * seconds));
  const int steps = std::clamp(static_cast<int>(100 / run(3)), 1, 50);
  std::vector<double> times;
  const auto start = std::chrono::steady_clock::now();
  while (times.size() < 5 || MillisecondsSince(start) < 1000 * seconds) times.push_back(run(steps));
  std::ranges::sort(times);
  return {{"row", row.name},
          {"side", SideName(compiled)},
          {"ms", times[times.size() / 2]},
          {"min", times[0]},
          {"first", first},
          {"peak", GetMemoryInfo(device).peak}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = "cpu", filter, mode;
  double seconds = 5;
  bool list = false;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (name == "--list") {
      list = true;
      continue;
    }
    if (value && name == "--device") {
      device = value;
    } else if (value && name == "--row") {
      filter = value;
    } else if (value && name == "--mode") {
      mode = value;
    } else if (value && name == "--seconds") {
      seconds = std::atof(value);
    } else {
      std::fprintf(stderr,
                   "usage: model_bench [--device NAME] [--row TEXT] "
                   "[--mode recorded|compiled] [--seconds S] [--list]\n");
      return 2;
    }
    ++i;
  }
  config::Set("device", device);
  for (const Row& row : kRows) {
    if (row.devices != device || std::string(row.name).find(filter) == std::string::npos) continue;
    if (list) {
      std::puts(row.name);
      continue;
    }
    for (bool compiled : {false, true}) {
      if (!mode.empty() && (mode == "compiled") != compiled) continue;
      std::puts(Measure(row, Device(device), compiled, seconds).dump().c_str());
      std::fflush(stdout);
    }
  }
}
