// A perceptron of two layers that learns to tell clothes apart: data sets, a loader that shuffles,
// an optimiser, and a training step that is compiled once.
#include <cstdio>

#include "common/images.h"

using namespace hammock;

int main() {
  manual_seed(1);
  examples::Images train = examples::LoadImages(6000), test = examples::LoadImages(1000, true);
  nn::Sequential net(nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
  optim::Adam optimizer(net->parameters(), {.lr = 2e-3});
  data::DataLoader loader(data::ArrayDataset({train.pixels, train.labels}),
                          {.batch_size = 100, .shuffle = true, .workers = 1});
  auto train_step = compile(
      [&](const Tensor& x, const Tensor& y) {
        optimizer.zero_grad();
        Tensor loss = cross_entropy(net(x), y);
        loss.backward();
        optimizer.step();
        return loss;
      },
      {net, optimizer});

  std::printf("before: %.1f%% of %ld images right\n", 100 * examples::Accuracy(net, test), 1000L);
  for (int epoch = 1; epoch <= 3; ++epoch) {
    Tensor sum = zeros({});
    for (const data::Batch& batch : loader) sum += train_step(batch[0], batch[1]);
    std::printf("epoch %d, loss %.4f\n", epoch,
                sum.item<double>() / static_cast<double>(loader.size()));
  }
  std::printf("after: %.1f%% right\n", 100 * examples::Accuracy(net, test));
}
