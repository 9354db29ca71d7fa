// The models of training.py in C++, as functions that Python calls in its own process, so that both
// train beside each other on one library.

#include <hammock/hammock.h>

#include <functional>
#include <memory>
#include <string>

using namespace hammock;

namespace {

using Step = std::function<Tensor()>;

/// One step of training by `compile`.
template <class Model, class Optimizer, class Forward>
Step Training(Model model, std::shared_ptr<Optimizer> optimizer, Forward forward, Tensor x,
              Tensor labels) {
  auto body = [=](const Tensor& inputs, const Tensor& targets) {
    optimizer->zero_grad();
    Tensor loss = cross_entropy(forward(inputs), targets);
    loss.backward();
    optimizer->step();
    return loss;
  };
  return [f = compile(body, {*model, *optimizer}), x, labels, model] { return f(x, labels); };
}

Step Mlp() {
  nn::Sequential model(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512), nn::ReLU(),
                       nn::Linear(512, 10));
  auto optimizer = std::make_shared<optim::SGD>(model->parameters(), optim::SGDOptions{.lr = 0.01});
  return Training(
      model, optimizer, [model](const Tensor& x) { return model->forward(x); }, randn({128, 784}),
      randint(0, 10, {128}));
}

Step Encoder() {
  struct Classifier : nn::Module {
    Classifier() : Module("Classifier") {
      layer = register_module("layer", nn::TransformerEncoderLayer({.d_model = 256,
                                                                    .nhead = 4,
                                                                    .dim_feedforward = 1024,
                                                                    .dropout = 0,
                                                                    .activation = "gelu",
                                                                    .batch_first = true}));
      head = register_module("head", nn::Linear(256, 10));
    }
    Tensor forward(const Tensor& x) { return head(layer(x).mean(1)); }
    nn::TransformerEncoderLayer layer = nullptr;
    nn::Linear head = nullptr;
  };
  auto model = std::make_shared<Classifier>();
  auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 1e-3});
  return Training(
      model, optimizer, [model](const Tensor& x) { return model->forward(x); }, randn({8, 64, 256}),
      randint(0, 10, {8}));
}

Step mlp, encoder;

}  // namespace

extern "C" {
__attribute__((visibility("default"))) double train_mlp() {
  if (!mlp) mlp = Mlp();
  return mlp().item<double>();
}
__attribute__((visibility("default"))) double train_encoder() {
  if (!encoder) encoder = Encoder();
  return encoder().item<double>();
}
}
