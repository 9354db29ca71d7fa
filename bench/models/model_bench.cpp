/// Whole models: milliseconds of a step, of the first one, and the highest memory in use.
///
///   model_bench [--device NAME] [--row TEXT] [--mode recorded|compiled] [--seconds S] [--list]
///
/// One line of JSON for each row and mode. The rows are those of the device, by default `cpu`;
/// --row takes those whose names contain TEXT. compare.py runs it beside the same models in
/// PyTorch.

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

template <int64_t kBatch, int64_t kLength>
Step TrainGpt2(bool compiled) {
  const GptSizes sizes{.context = kLength};
  auto model = std::make_shared<Gpt>(sizes);
  auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 3e-4});
  auto tokens = [&] { return randint(0, sizes.vocabulary, {kBatch, kLength}); };
  return Training(
      model, optimizer, compiled,
      [model](const Tensor& x) { return model->forward(x).flatten(0, 1); }, tokens(),
      tokens().flatten(), bf16);
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

Step Decode(bool compiled, const LlamaSizes& sizes) {
  auto model = std::make_shared<Llama>(sizes);
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
Step Decode1B(bool compiled) { return Decode(compiled, {}); }
Step Decode100M(bool compiled) {
  return Decode(compiled, {.width = 768,
                           .layers = 10,
                           .heads = 12,
                           .key_heads = 4,
                           .inner = 2048,
                           .vocabulary = 16000,
                           .context = 256});
}

using Depth = ResNet::Depth;
const Row kRows[] = {
    {"GPT-2 124M training, 8 x 1024, bf16", "cuda", false, TrainGpt2<8, 1024>},
    {"GPT-2 124M training, 1 x 256, bf16", "cuda", false, TrainGpt2<1, 256>},
    {"ResNet-50 training, 64 x 224, bf16", "cuda", false, TrainResNet<Depth::k50, 64, true>},
    {"Llama-style 1B decoding, bf16", "cuda", true, Decode1B},
    {"ResNet-18 training, 4 x 224, f32", "cpu", false, TrainResNet<Depth::k18, 4, false>},
    {"ResNet-18 training, 4 x 224, bf16", "cpu", false, TrainResNet<Depth::k18, 4, true>},
    {"ResNet-18 inference, 4 x 224, f32", "cpu", false, InferResNet18<4, false>},
    {"ResNet-18 inference, 4 x 224, bf16", "cpu", false, InferResNet18<4, true>},
    {"encoder training, 16 x 64 x 256, f32", "cpu", false, TrainEncoder<false>},
    {"encoder training, 16 x 64 x 256, bf16", "cpu", false, TrainEncoder<true>},
    {"Llama-style 100M decoding, bf16", "cpu", true, Decode100M},
};

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
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
          {"side", compiled ? "Hammock, compiled" : "Hammock, recorded"},
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
