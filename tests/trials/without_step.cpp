// Training loops that never say `step`: nearly as fast as those that do, with few compiles,
// whatever the size of the loop's body.
#include "check.h"

using namespace hammock;
using namespace trial;

namespace {

struct Trainer {
  explicit Trainer(int layers) {
    for (int i = 0; i < layers; ++i) {
      net->push_back(nn::Linear(32, 32));
      net->push_back(nn::Tanh());
    }
    net->push_back(nn::Linear(32, 10));
    optimizer.emplace(net->parameters(), optim::AdamOptions{.lr = 1e-3});
  }
  nn::Sequential net;
  std::optional<optim::Adam> optimizer;
  Tensor loss;

  void Body() {
    optimizer->zero_grad();
    Tensor x = randn({16, 32});
    Tensor value = cross_entropy(net(x), argmax(x.slice(1, 0, 10), 1));
    value.backward();
    optimizer->step();
    loss = value.detach();
  }
};

/// Seconds a step of a loop that reads once, at its end: the best of some loops.
double Measure(int layers, int steps, bool with_step, double* compiles) {
  manual_seed(5);
  Trainer trainer(layers);
  auto run = [&] {
    for (int i = 0; i < steps; ++i) {
      if (with_step) {
        step([&] { trainer.Body(); });
      } else {
        trainer.Body();
      }
    }
    return trainer.loss.item<double>();
  };
  int64_t before = Compiles();
  for (int i = 0; i < 3; ++i) run();
  *compiles = static_cast<double>(Compiles() - before);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    double start = Seconds();
    run();
    best = std::min(best, Seconds() - start);
  }
  return best / steps;
}

}  // namespace

int main() {
  for (int layers : {1, 4, 16}) {
    int steps = 600 / layers;
    double compiles = 0, unused = 0;
    double with = Measure(layers, steps, true, &unused);
    double without = Measure(layers, steps, false, &compiles);
    std::printf("%d layers: ", layers);
    CheckAtMost(compiles, 6, "compiles of a loop without step");
    std::printf("%d layers: ", layers);
    CheckAtMost(without / with, 2, "time without step against with");
  }
  return Result();
}
