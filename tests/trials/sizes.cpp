// A small transformer trained on batches of ever other sizes, a convolutional network on images of
// ever other heights and widths, a recurrent one on pairs of sequences: a handful of compiles, and
// a new size costs little more than one that was seen before.
#include <functional>
#include <random>
#include <string>

#include "check.h"
#include "support/has_onednn.h"

using namespace hammock;
using namespace trial;

namespace {

using Train = std::function<Tensor(int64_t a, int64_t b)>;

/// Trains at random pairs of sizes; `train` returns the loss. A new size may take so many times as
/// long as a known one.
void TrainAtAnySize(const char* name, const std::vector<Tensor>& parameters, int64_t least,
                    int64_t most, double most_ratio, const Train& loss_of) {
  optim::SGD optimizer(parameters, {.lr = 1e-3});
  auto train = [&](int64_t a, int64_t b) {
    Tensor loss;
    double start = CpuSeconds();
    step([&] {
      optimizer.zero_grad();
      Tensor value = loss_of(a, b);
      value.backward();
      optimizer.step();
      loss = value.detach();
    });
    Check(std::isfinite(loss.item<double>()), std::string(name) + ": the loss is finite");
    return CpuSeconds() - start;
  };
  std::mt19937 random(1);
  auto any = [&] { return least + static_cast<int64_t>(random() % (most - least + 1)); };
  int64_t compiles = Compiles();
  double fresh = 0, again = 0;
  for (int i = 0; i < 50; ++i) {
    int64_t a = any(), b = any();
    double first = train(a, b), second = train(a, b);
    if (i < 20) continue;
    fresh += first;
    again += second;
  }
  CheckAtMost(static_cast<double>(Compiles() - compiles), 6, std::string(name) + ": compiles");
  CheckAtMost(fresh / again, most_ratio, std::string(name) + ": a new size against a known one");
}

void TrainOnImages() {
  nn::Conv2d first(3, 8, 3),
      second({.in_channels = 8, .out_channels = 16, .kernel_size = 3, .stride = 2, .padding = 1});
  nn::Linear head(16, 10);
  std::vector<Tensor> parameters = first->parameters();
  for (const Tensor& parameter : second->parameters()) parameters.push_back(parameter);
  for (const Tensor& parameter : head->parameters()) parameters.push_back(parameter);
  Tensor labels = randint(0, 10, {4});
  sync_multi({labels});
  // A convolution of a new shape is a kernel that the library generates.
  TrainAtAnySize("images", parameters, 24, 80, 5, [&](int64_t height, int64_t width) {
    Tensor x = relu(first(randn({4, 3, height, width})));
    x = relu(second(max_pool2d(x, {2, 2})));
    return cross_entropy(head(adaptive_avg_pool2d(x, {1, 1}).flatten(1)), labels);
  });
}

void TrainOnSequences() {
  nn::LSTM encoder({.input_size = 16, .hidden_size = 16, .batch_first = true});
  nn::GRU decoder({.input_size = 16, .hidden_size = 16, .batch_first = true});
  std::vector<Tensor> parameters = encoder->parameters();
  for (const Tensor& parameter : decoder->parameters()) parameters.push_back(parameter);
  TrainAtAnySize("sequences", parameters, 3, 50, 4.5, [&](int64_t from, int64_t to) {
    auto [all, state] = encoder(randn({4, from, 16}));
    Tensor y = randn({4, to, 16});
    auto [out, last] = decoder(y, std::get<0>(state));
    return mse_loss(out, y);
  });
}

}  // namespace

int main() {
  manual_seed(4);
  nn::Embedding embedding(500, 32);
  nn::TransformerEncoder encoder(
      nn::TransformerLayerOptions{
          .d_model = 32, .nhead = 4, .dim_feedforward = 64, .dropout = 0.1, .batch_first = true},
      2);
  nn::Linear head(32, 500);
  std::vector<Tensor> parameters = embedding->parameters();
  for (const Tensor& parameter : encoder->parameters()) parameters.push_back(parameter);
  for (const Tensor& parameter : head->parameters()) parameters.push_back(parameter);
  optim::AdamW optimizer(parameters, {.lr = 1e-3});
  auto train = [&](int64_t batch, int64_t length) {
    Tensor loss;
    double start = CpuSeconds();
    step([&] {
      optimizer.zero_grad();
      Tensor codes = randint(0, 500, {batch, length});
      Tensor value = cross_entropy(head(encoder(embedding(codes))).flatten(0, 1), codes.flatten());
      value.backward();
      optim::clip_grad_norm_(parameters, 1.0);
      optimizer.step();
      loss = value.detach();
    });
    double value = loss.item<double>();
    Check(std::isfinite(value), "the loss is finite");
    return CpuSeconds() - start;
  };
  std::mt19937 random(0);
  auto any_size = [&] { return std::pair<int64_t, int64_t>(1 + random() % 12, 2 + random() % 40); };
  for (int i = 0; i < 40; ++i) {
    auto [batch, length] = any_size();
    train(batch, length);
  }
  int64_t compiles = Compiles();
  double fresh = 0, again = 0, memory = ResidentMB();
  for (int i = 0; i < 60; ++i) {
    auto [batch, length] = any_size();
    fresh += train(batch, length);
    again += train(batch, length);
  }
  CheckAtMost(static_cast<double>(Compiles() - compiles), 2, "compiles after the first sizes");
  CheckAtMost(fresh / again, 2, "a new size against the same again");
  CheckAtMost(ResidentMB() - memory, 64, "MB for 60 more sizes");
  if (testing::HasOneDnn()) {
    TrainOnImages();
  } else {
    std::puts("images: not tried; without oneDNN gradients have other ops at each remainder");
  }
  TrainOnSequences();
  return Result();
}
