// A convolutional network with batch norm and dropout, a one-cycle schedule, and a checkpoint: run
// it again with the same file and it goes on where it was.
//
//   convnet [CHECKPOINT]
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "common/images.h"

using namespace hammock;

nn::Sequential MakeNet() {
  return nn::Sequential(
      nn::Conv2d({.in_channels = 1, .out_channels = 8, .kernel_size = 3, .padding = 1}),
      nn::BatchNorm2d(8), nn::ReLU(), nn::MaxPool2d(2),
      nn::Conv2d({.in_channels = 8, .out_channels = 16, .kernel_size = 3, .padding = 1}),
      nn::BatchNorm2d(16), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Dropout(0.2),
      nn::Linear(16 * 7 * 7, 10));
}

int main(int argc, char** argv) {
  manual_seed(1);
  constexpr int64_t kSteps = 80;
  examples::Images train = examples::LoadImages(4000), test = examples::LoadImages(500, true);
  nn::Sequential net = MakeNet();
  std::cout << *net << "\n";
  optim::AdamW optimizer(net->parameters());
  optim::OneCycleLR schedule(optimizer, {.max_lr = 0.01, .total_steps = kSteps + 1});
  data::DataLoader loader(data::ArrayDataset({train.pixels, train.labels}),
                          {.batch_size = 50, .shuffle = true, .workers = 1});
  int64_t step = 0;
  Checkpoint run({{"model", net},
                  {"optimizer", optimizer},
                  {"schedule", schedule},
                  {"data", loader},
                  {"step", step}});
  if (argc > 1 && std::filesystem::exists(argv[1])) {
    run.load(argv[1]);
    std::printf("going on at step %ld\n", static_cast<long>(step));
  }

  while (step < kSteps) {
    for (const data::Batch& batch : loader) {
      if (step == kSteps) break;
      Tensor loss;
      hammock::step([&] {
        optimizer.zero_grad();
        loss = cross_entropy(net(batch[0]), batch[1]);
        loss.backward();
        optimizer.step();
      });
      schedule.step();
      if (step++ % 20 == 0) {
        std::printf("step %2ld, lr %.4f, loss %.4f\n", static_cast<long>(step), optimizer.lr(),
                    loss.item<double>());
        if (argc > 1) run.save(argv[1]);
      }
    }
  }
  net->eval();
  std::printf("%.1f%% of new images right\n", 100 * examples::Accuracy(net, test));
}
