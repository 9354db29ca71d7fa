// What a size costs that is new: a step at a known size, at a size for the first time, and for the
// second time. The sizes seen first make the general entry and are not counted.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "hammock/hammock.h"
#include "hammock/metrics.h"

namespace {

using namespace hammock;

double Now() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double TimeOf(const std::function<void(int64_t)>& run, int64_t size) {
  double start = Now();
  run(size);
  return Now() - start;
}

/// One row: microseconds of a step at sizes from `first` to `last`.
void Measure(const char* name, int64_t first, int64_t last,
             const std::function<void(int64_t)>& run) {
  for (int64_t size : {first + (last - first) / 2, first + (last - first) / 3, last}) {
    for (int i = 0; i < 10; ++i) run(size);
  }
  int64_t compiles = metrics::CounterValue("UncachedCompile").value_or(0);
  std::vector<double> new_times, second_times, warm_times;
  for (int64_t size = first; size < last; ++size) {
    new_times.push_back(TimeOf(run, size));
    second_times.push_back(TimeOf(run, size));
    for (int i = 0; i < 10; ++i) run(size);
    warm_times.push_back(TimeOf(run, size));
  }
  compiles = metrics::CounterValue("UncachedCompile").value_or(0) - compiles;
  double warm = Median(warm_times), second = Median(second_times), fresh = Median(new_times);
  double total = 0;
  for (double time : new_times) total += time;
  double mean = total / static_cast<double>(new_times.size());
  std::printf("%-24s %9.0f %9.0f %9.0f %9.0f %8.2f %8.2f %8d\n", name, warm, fresh, mean, second,
              fresh / warm, second / warm, static_cast<int>(compiles));
}

void TrainMlp() {
  nn::Linear first(64, 128), second(128, 128), third(128, 10);
  std::vector<Tensor> parameters;
  for (const nn::Linear& layer : {first, second, third}) {
    for (const Tensor& parameter : layer->parameters()) parameters.push_back(parameter);
  }
  optim::SGD optimizer(parameters, {.lr = 0.01});
  Tensor points = randn({256, 64}), labels = randint(0, 10, {256});
  sync_multi({points, labels});
  Measure("train mlp, batch", 2, 200, [&](int64_t batch) {
    Tensor loss;
    step([&] {
      optimizer.zero_grad();
      Tensor x = points.narrow(0, 0, batch);
      loss = cross_entropy(third(relu(second(relu(first(x))))), labels.narrow(0, 0, batch));
      loss.backward();
      optimizer.step();
      loss = loss.detach();
    });
    loss.item<double>();
  });
}

void TrainConvNet() {
  nn::Conv2d first(1, 8, 5), second(8, 16, 3);
  nn::Linear head(16 * 5 * 5, 10);
  std::vector<Tensor> parameters = first->parameters();
  for (const Tensor& parameter : second->parameters()) parameters.push_back(parameter);
  for (const Tensor& parameter : head->parameters()) parameters.push_back(parameter);
  optim::SGD optimizer(parameters, {.lr = 0.01});
  Tensor images = randn({128, 1, 28, 28}), labels = randint(0, 10, {128});
  sync_multi({images, labels});
  Measure("train convnet, batch", 2, 100, [&](int64_t batch) {
    Tensor loss;
    step([&] {
      optimizer.zero_grad();
      Tensor x = max_pool2d(relu(first(images.narrow(0, 0, batch))), {2, 2});
      x = max_pool2d(relu(second(x)), {2, 2}).flatten(1);
      loss = cross_entropy(head(x), labels.narrow(0, 0, batch));
      loss.backward();
      optimizer.step();
      loss = loss.detach();
    });
    loss.item<double>();
  });
}

/// A size for each number: a pair of heights and widths, of sequences, ...
std::pair<int64_t, int64_t> PairOf(int64_t number, int64_t least) {
  return {least + number * 7 % 41, least + number * 13 % 53};
}

/// Of any height and width: three convolutions that halve them.
void TrainOnImages() {
  auto layer = [](int64_t in, int64_t out) {
    return nn::Conv2d(
        {.in_channels = in, .out_channels = out, .kernel_size = 3, .stride = 2, .padding = 1});
  };
  nn::Sequential net(layer(3, 16), nn::ReLU(), layer(16, 32), nn::ReLU(), layer(32, 32));
  nn::Linear head(32, 10);
  std::vector<Tensor> parameters = net->parameters();
  for (const Tensor& parameter : head->parameters()) parameters.push_back(parameter);
  optim::SGD optimizer(parameters, {.lr = 0.01});
  Tensor images = randn({4, 3, 128, 128}), labels = randint(0, 10, {4});
  sync_multi({images, labels});
  Measure("train convnet, h and w", 2, 100, [&](int64_t number) {
    auto [height, width] = PairOf(number, 64);
    Tensor loss;
    step([&] {
      optimizer.zero_grad();
      Tensor x = net(images.narrow(2, 0, height).narrow(3, 0, width));
      loss = cross_entropy(head(adaptive_avg_pool2d(x, {1, 1}).flatten(1)), labels);
      loss.backward();
      optimizer.step();
      loss = loss.detach();
    });
    loss.item<double>();
  });
}

/// Images of any height and width to one size, as before a classifier.
void ResizeImages() {
  NoGradGuard no_grad;
  Tensor images = randn({4, 3, 128, 128});
  sync_multi({images});
  Measure("resize, h and w", 2, 100, [&](int64_t number) {
    auto [height, width] = PairOf(number, 64);
    Tensor x = images.narrow(2, 0, height).narrow(3, 0, width);
    interpolate(x, Dims{96, 96}, std::nullopt, "bilinear", false).mean().item<double>();
  });
}

/// A sequence to another, both of any length.
void TrainOnSequences() {
  nn::LSTM encoder({.input_size = 32, .hidden_size = 32, .batch_first = true});
  nn::LSTM decoder({.input_size = 32, .hidden_size = 32, .batch_first = true});
  std::vector<Tensor> parameters = encoder->parameters();
  for (const Tensor& parameter : decoder->parameters()) parameters.push_back(parameter);
  optim::SGD optimizer(parameters, {.lr = 0.01});
  Tensor points = randn({8, 64, 32});
  sync_multi({points});
  Measure("train lstms, lengths", 2, 100, [&](int64_t number) {
    auto [from, to] = PairOf(number, 5);
    Tensor loss;
    step([&] {
      optimizer.zero_grad();
      auto [all, state] = encoder(points.narrow(1, 0, from));
      Tensor target = points.narrow(1, 0, to);
      auto [out, last] = decoder(target, state);
      loss = mse_loss(out, target);
      loss.backward();
      optimizer.step();
      loss = loss.detach();
    });
    loss.item<double>();
  });
}

void InferBf16() {
  NoGradGuard no_grad;
  Tensor weights[] = {(randn({512, 256}) * 0.05).to(bf16), (randn({256, 512}) * 0.05).to(bf16)};
  Tensor points = randn({256, 256}).to(bf16);
  sync_multi({weights[0], weights[1], points});
  Measure("mlp bf16, batch", 2, 200, [&](int64_t batch) {
    Tensor x = linear(relu(linear(points.narrow(0, 0, batch), weights[0])), weights[1]);
    x.to(f32).sum().item<double>();
  });
}

void DecodeWithCache() {
  constexpr int64_t kWidth = 256, kHeads = 8, kHead = kWidth / kHeads, kLayers = 4;
  NoGradGuard no_grad;
  std::vector<Tensor> weights;
  for (int64_t i = 0; i < kLayers; ++i) {
    for (const Dims& sizes : {Dims{3 * kWidth, kWidth}, Dims{kWidth, kWidth},
                              Dims{4 * kWidth, kWidth}, Dims{kWidth, 4 * kWidth}}) {
      weights.push_back(randn(sizes) * 0.05);
    }
  }
  Tensor cache = randn({kLayers, 2, 1, kHeads, 512, kHead});
  sync_multi(weights);
  sync_multi({cache});
  Measure("decode, cache length", 2, 400, [&](int64_t length) {
    Tensor x = ones({1, 1, kWidth});
    std::vector<Tensor> grown;
    for (int64_t i = 0; i < kLayers; ++i) {
      const Tensor* w = &weights[4 * i];
      Tensor qkv = linear(rms_norm(x, {kWidth}), w[0]).view({1, 1, 3, kHeads, kHead});
      auto part = [&](int64_t p) { return qkv.select(2, p).transpose(1, 2); };
      auto with_past = [&](int64_t p) {
        Tensor past = cache.select(0, i).select(0, p - 1).narrow(2, 0, length);
        grown.push_back(cat({past, part(p)}, 2));
        return grown.back();
      };
      Tensor keys = with_past(1), values = with_past(2);
      Tensor a = scaled_dot_product_attention(part(0), keys, values);
      x = x + linear(a.transpose(1, 2).reshape({1, 1, kWidth}), w[1]);
      x = x + linear(silu(linear(rms_norm(x, {kWidth}), w[2])), w[3]);
    }
    x.sum().item<double>();
  });
}

}  // namespace

int main() {
  std::printf("%-24s %9s %9s %9s %9s %8s %8s %8s\n", "us a step", "known", "new", "new, mean",
              "second", "new/k", "second/k", "compiles");
  TrainMlp();
  TrainConvNet();
  TrainOnImages();
  ResizeImages();
  TrainOnSequences();
  InferBf16();
  DecodeWithCache();
}
