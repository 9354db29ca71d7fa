// Linear regression: finds the three weights and the offset of noisy data.
#include <hammock/hammock.h>

#include <iostream>

using namespace hammock;

int main() {
  Tensor x = randn({256, 3});
  Tensor y = matmul(x, tensor({{2.0}, {-1.0}, {0.5}})) + 3.0 + 0.1 * randn({256, 1});
  nn::Linear model(3, 1);
  optim::SGD optimizer(model->parameters(), {.lr = 0.1});
  for (int i = 0; i <= 60; ++i) {
    Tensor loss;
    step([&] {
      optimizer.zero_grad();
      loss = mse_loss(model(x), y);
      loss.backward();
      optimizer.step();
    });
    if (i % 20 == 0) std::cout << "step " << i << ", loss " << loss.item<double>() << "\n";
  }
  std::cout << "weights " << model->weight << "\noffset " << model->bias << "\n";
}
