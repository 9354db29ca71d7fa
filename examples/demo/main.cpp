// Trains a small convolutional network for about a minute, then shows what the lazy system did.
//
//   demo [epochs]
#include <hammock/hammock.h>
#include <hammock/nn.h>
#include <hammock/optim.h>
#include <hammock/profile.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "images.h"
#include "progress.h"

using namespace hammock;

namespace {

constexpr int64_t kBatch = 128;

nn::Sequential MakeNet() {
  return nn::Sequential(
      nn::Conv2d({.in_channels = 1, .out_channels = 16, .kernel_size = 3, .padding = 1}),
      nn::ReLU(), nn::MaxPool2d(2),
      nn::Conv2d({.in_channels = 16, .out_channels = 32, .kernel_size = 3, .padding = 1}),
      nn::ReLU(), nn::MaxPool2d(2),  //
      nn::Flatten(), nn::Linear(32 * 7 * 7, 128), nn::ReLU(), nn::Linear(128, 10));
}

/// Pixels of 0 to 255 as the net wants them.
Tensor Scores(nn::Sequential& net, const Tensor& pixels) {
  return net->forward(unsqueeze(pixels, 1).to(f32) / 255.0);
}

class Trainer {
 public:
  /// One batch; the loss is there when somebody reads it.
  Tensor Train(const data::Batch& batch) {
    Tensor loss;
    step([&] {
      optimizer_.zero_grad();
      loss = cross_entropy(Scores(net_, batch[0]), batch[1].to(i64));
      loss.backward();
      optimizer_.step();
      loss = loss.detach();
    });
    return loss;
  }

  double Accuracy(data::DataLoader& loader) {
    NoGradGuard no_grad;
    Tensor right = zeros({});
    int64_t seen = 0;
    for (const data::Batch& batch : loader) {
      step([&] { right += (argmax(Scores(net_, batch[0]), 1) == batch[1]).sum(); });
      seen += batch[0].size(0);
    }
    return right.item<double>() / static_cast<double>(seen);
  }

  const nn::Sequential& net() const { return net_; }

 private:
  nn::Sequential net_ = MakeNet();
  optim::Adam optimizer_{net_->parameters(), {.lr = 1e-3}};
};

/// Seconds of the quickest of a few steps, behind a few that warm up.
double StepTime(Trainer& trainer, const data::Batch& batch) {
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    Progress clock(0);
    trainer.Train(batch).item();
    if (i >= 5) best = std::min(best, clock.Seconds());
  }
  return best;
}

/// How much faster the same step is than in eager mode. They take turns, since other programs may
/// slow down one of them.
double TimesEager(data::DataLoader& loader) {
  Trainer trainer;
  data::Batch batch = *loader.begin();
  double best[] = {1e9, 1e9};
  for (int turn = 0; turn < 3; ++turn) {
    for (bool eager : {false, true}) {
      config::Override mode("eager", eager ? "true" : "false");
      best[eager] = std::min(best[eager], StepTime(trainer, batch));
    }
  }
  return best[true] / best[false];
}

}  // namespace

int main(int argc, char** argv) {
  int64_t epochs = argc > 1 ? std::atoll(argv[1]) : 8;
  manual_seed(1);
  ImageSets images = ReadImages();
  Activity activity;
  data::DataLoader train(images.train,
                         {.batch_size = kBatch, .shuffle = true, .drop_last = true, .workers = 1});
  data::DataLoader test(images.test, {.batch_size = 1000});

  Trainer trainer;
  std::printf("%s, %ld images, %ld epochs\n", images.name.c_str(),
              static_cast<long>(images.train->size()), static_cast<long>(epochs));
  std::cout << *trainer.net() << std::endl;
  Progress progress(epochs * train.size() * kBatch);
  int64_t done = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (const data::Batch& batch : train) {
      Tensor loss = trainer.Train(batch);
      done += kBatch;
      if (progress.IsDue(done)) progress.Show(done, loss.item<double>());
    }
  }
  double accuracy = trainer.Accuracy(test);
  std::printf("%.1f%% of %ld test images are told apart\n", 100 * accuracy,
              static_cast<long>(images.test->size()));
  ActivityTotals happened = activity.totals();
  std::printf("\nWhat happened\n%s%-17s %.1f times that of eager mode, op by op\n",
              happened.ToText().c_str(), "speed", TimesEager(train));
  std::printf(
      "\nTry next\n"
      "  HAMMOCK_EXPLAIN_MISSES=1 build/examples/demo 1   why each graph was compiled\n"
      "  HAMMOCK_PROFILE_FILE=run.json build/examples/demo 1 &&\n"
      "    build/tools/hammock/hammock report run.json -o run.html   a page of all that was done\n"
      "  docs/quickstart.md   a program of your own\n");
  return accuracy > 0.8 ? 0 : 1;
}
