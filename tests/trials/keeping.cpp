// Long runs: memory does not grow, and a loss that is kept costs about what it holds.
#include "check.h"

using namespace hammock;
using namespace trial;

int main() {
  nn::Sequential net(nn::Linear(32, 32), nn::ReLU(), nn::Linear(32, 10));
  optim::Adam optimizer(net->parameters(), {});
  Tensor x = randn({16, 32}), y = randint(0, 10, {16});
  auto train = [&] {
    Tensor loss;
    step([&] {
      optimizer.zero_grad();
      Tensor value = cross_entropy(net(x), y);
      value.backward();
      optimizer.step();
      loss = value.detach();
    });
    return loss;
  };
  for (int i = 0; i < 1000; ++i) train();
  wait_device_ops();
  double before = ResidentMB();
  for (int i = 0; i < 4000; ++i) train();
  wait_device_ops();
  CheckAtMost(ResidentMB() - before, 4, "MB that 4000 steps leave");
  std::vector<Tensor> kept;
  before = ResidentMB();
  for (int i = 0; i < 4000; ++i) kept.push_back(train());
  wait_device_ops();
  CheckAtMost((ResidentMB() - before) * 1024 / 4000, 2, "kB for a kept loss");
  Check(kept.front().item<double>() > kept.back().item<double>(), "training makes progress");
  return Result();
}
