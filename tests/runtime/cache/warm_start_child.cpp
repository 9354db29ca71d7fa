// warm_start_child DEVICE cold|warm: trains a small network for some steps, at several sizes, and
// prints what it computed. With `warm`, the status is 1 where anything was lowered, scheduled for
// the CPU or compiled: another process did so before, with the same `cache_dir`.

#include <hammock/control.h>
#include <hammock/hammock.h>
#include <hammock/metrics.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

using namespace hammock;

namespace {

int64_t CounterOf(const char* name) { return metrics::GetCounter(name).Value(); }

/// A loss of a network with a convolution, a loop and an embedding, after a step of training.
double Train(nn::Sequential& net, optim::SGD& sgd, const Device& device, int64_t batch) {
  Tensor images = arange(batch * 36, f32, device).reshape({batch, 1, 6, 6}) / 36.0;
  Tensor labels = arange(batch, i64, device) % 3;
  sgd.zero_grad();
  Tensor loss = cross_entropy(net(images), labels);
  loss.backward();
  sgd.step();
  mark_step();
  return loss.item<double>();
}

double Sums(const Device& device, int64_t n) {
  Tensor x = arange(n, f32, device);
  return (cumsum(x, 0) * 2.0 + flip(x, {0})).sum().item<double>();
}

/// A loop with a branch in it, and a loop that is decided by a value.
double Control(const Device& device) {
  auto body = [](const std::vector<Tensor>& in) {
    auto twice = [](const std::vector<Tensor>& x) { return std::vector<Tensor>{x[0] * 2.0}; };
    auto less = [](const std::vector<Tensor>& x) { return std::vector<Tensor>{exp(-x[0])}; };
    return cond(in[1].sum() < 9.0, twice, less, {in[1]});
  };
  auto goes_on = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0].sum() < 100.0};
  };
  auto grow = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 3.0 + 1.0}; };
  Tensor x = for_loop(4, body, {arange(5, f32, device)})[0];
  return while_loop(goes_on, grow, {x})[0].sum().item<double>();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto start = std::chrono::steady_clock::now();
  const Device device(argv[1]);
  manual_seed(7);
  nn::Sequential net(nn::Conv2d(1, 4, 3), nn::ReLU(), nn::Flatten(), nn::Linear(64, 3));
  net->to(device);
  optim::SGD sgd(net->parameters(), {.lr = 0.1, .momentum = 0.9});
  std::string text;
  for (int64_t batch : {4, 4, 6, 7, 9}) {
    text += std::to_string(Train(net, sgd, device, batch)) + " ";
  }
  for (int64_t n : {10, 20, 30}) text += std::to_string(Sums(device, n)) + " ";
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // The fake GPU computes nothing, so a loop there would never end.
  if (std::strcmp(argv[1], "cpu") == 0) text += std::to_string(Control(device)) + " ";
  int64_t lowered = metrics::GetMetric("LowerTime", metrics::Kind::kTime).Data().samples;
  int64_t compiled = CounterOf("cpu::CodeCompiled") + CounterOf("cuda::KernelsCompiled");
  std::printf("results %s\n", text.c_str());
  std::fflush(stdout);
  std::fprintf(stderr,
               "%s: %.3f s, %lld misses, %lld lowered, %lld scheduled, %lld kernels compiled, "
               "%lld loaded, %lld interpreted\n",
               argv[2], seconds, static_cast<long long>(CounterOf("UncachedCompile")),
               static_cast<long long>(lowered),
               static_cast<long long>(CounterOf("cpu::SchedulesMade")),
               static_cast<long long>(compiled), static_cast<long long>(CounterOf("DiskCacheHits")),
               static_cast<long long>(CounterOf("cpu::KernelRunsInterpreted")));
  if (std::strcmp(argv[2], "cold") == 0) return 0;
  bool nothing = CounterOf("UncachedCompile") == 0 && lowered == 0 && compiled == 0 &&
                 CounterOf("cpu::SchedulesMade") == 0 &&
                 CounterOf("cpu::KernelRunsInterpreted") == 0;
  return nothing ? 0 : 1;
}
