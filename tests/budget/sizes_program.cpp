/// Trains a small network on batches of as many sizes, each size the given number of times.
///   sizes_program SIZES TIMES FIRST
/// Sizes begin at FIRST. Those that are seen before, for which the step is compiled, are larger.
/// On CUDA, where nothing is computed: what is left is the work of the host.

#include <hammock/hammock.h>

#include <cstdio>
#include <cstdlib>

using namespace hammock;

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  config::Set("device", "cuda");
  config::Set("cuda.emulate", "none");
  const int64_t sizes = std::atoi(argv[1]);
  const int times = std::atoi(argv[2]);
  const int64_t first = std::atoi(argv[3]);

  nn::Sequential net(nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 128), nn::ReLU(),
                     nn::Linear(128, 10));
  optim::SGD optimizer(net->parameters(), {.lr = 0.01});
  Tensor points = randn({4096, 64}), labels = zeros({4096}, i64);
  sync_multi({points, labels});
  auto run = [&](int64_t batch) {
    Tensor loss;
    step([&] {
      optimizer.zero_grad();
      loss = cross_entropy(net(points.narrow(0, 0, batch)), labels.narrow(0, 0, batch));
      loss.backward();
      optimizer.step();
      loss = loss.detach();
    });
    loss.item<double>();
  };
  for (int64_t batch : {first + 200, first + 70, first + 300}) {
    for (int i = 0; i < 5; ++i) run(batch);
  }
  const int64_t before = metrics::CounterValue("UncachedCompile").value_or(0);
  for (int64_t i = 0; i < sizes; ++i) {
    for (int k = 0; k < times; ++k) run(first + i);
  }
  const int64_t compiles = metrics::CounterValue("UncachedCompile").value_or(0) - before;
  std::printf("%lld compiles\n", static_cast<long long>(compiles));
  return compiles == 0 ? 0 : 1;
}
