// Data parallel training: hammock launch -n 2 ./data_parallel
#include <hammock/distributed/data_parallel.h>
#include <hammock/hammock.h>

#include <iostream>

using namespace hammock;

int main() {
  distributed::Group world = distributed::init();
  manual_seed(0);  // the same data everywhere; each rank takes its examples of it
  Tensor x = randn({512, 8});
  Tensor y = sin(sum(x, {1}, true));
  nn::Sequential model(nn::Linear(8, 64), nn::Tanh(), nn::Linear(64, 1));
  distributed::DataParallel parallel(*model);
  optim::Adam optimizer(model->parameters(), {.lr = 0.01});
  data::DistributedSampler sampler(world.rank(), world.size(), /*shuffle=*/true, /*seed=*/1);
  for (int epoch = 0; epoch <= 40; ++epoch) {
    Tensor examples = tensor(sampler.Order(512, epoch));
    Tensor loss, mean;
    step([&] {
      optimizer.zero_grad();
      loss = mse_loss(model(index_select(x, 0, examples)), index_select(y, 0, examples));
      loss.backward();
      parallel.reduce_gradients();
      optimizer.step();
      mean = distributed::all_reduce(loss.detach(), distributed::Reduction::kMean);
    });
    if (epoch % 20 == 0 && world.rank() == 0) {
      std::cout << "step " << epoch << ", loss " << mean.item<double>() << "\n";
    }
  }
  distributed::shutdown();
}
