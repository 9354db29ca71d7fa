// A small transformer trained on batches of ever other sizes: a handful of compiles, and a new size
// costs little more than one that was seen before.
#include <random>

#include "check.h"

using namespace hammock;
using namespace trial;

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
    double start = Seconds();
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
    return Seconds() - start;
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
  return Result();
}
