/// Threads that use one device at the same time: how many requests they answer in a second against
/// one thread alone, and how long a small request takes beside a thread with large ones. Every
/// answer is compared with that of one thread alone, bit by bit.
///
///   thread_bench [DEVICE SECONDS SCALE]     by default cuda 2 1; SCALE 16 makes sizes that much
///   smaller

#include <hammock/config.h>
#include <hammock/hammock.h>
#include <hammock/metrics.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace hammock;

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A model that answers requests: layers of one width, and what one request asks.
struct Model {
  Model(const Device& device, int64_t rows, int64_t width, int layers, DType dtype) {
    manual_seed(static_cast<uint64_t>(width));
    for (int i = 0; i < layers; ++i) {
      weights.push_back((randn({width, width}, f32, device) * 0.05).to(dtype));
    }
    request = randn({rows, width}, f32, device).to(dtype);
    mark_step(true);
    answer = Answer();
  }

  /// The caller's thread records, runs and reads.
  std::vector<float> Answer() const {
    Tensor x = request;
    for (const Tensor& weight : weights) x = gelu(matmul(x, weight));
    return x.to(f32).sum(Dims{0}).slice(0, 0, 4).to_vector<float>();
  }

  std::vector<Tensor> weights;
  Tensor request;
  std::vector<float> answer;
};

std::atomic<int64_t> wrong{0};

/// Answers until `stop`; the time of each.
std::vector<double> AnswerUntil(const Model& model, const std::function<bool()>& stop) {
  std::vector<double> times;
  while (!stop()) {
    auto start = Clock::now();
    if (model.Answer() != model.answer) ++wrong;
    times.push_back(SecondsSince(start) * 1e3);
  }
  return times;
}

/// Requests in a second of that many threads; each has handles of its own.
double Throughput(const Model& model, int threads, double seconds) {
  std::atomic<int64_t> count{0};
  std::vector<std::jthread> running;
  Clock::time_point begin;
  std::barrier warm(threads, [&]() noexcept { begin = Clock::now(); });
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, own = model] {
      for (int k = 0; k < 10; ++k) own.Answer();
      warm.arrive_and_wait();
      count += static_cast<int64_t>(
          AnswerUntil(own, [&] { return SecondsSince(begin) > seconds; }).size());
    });
  }
  for (std::jthread& thread : running) thread.join();
  return static_cast<double>(count) / SecondsSince(begin);
}

void PrintTimes(const char* what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  auto at = [&](double part) {
    return times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))];
  };
  std::printf("  %-28s p50 %8.3f  p99 %8.3f  most %8.3f ms, %zu requests\n", what, at(0.5),
              at(0.99), times.back(), times.size());
}

}  // namespace

int main(int argc, char** argv) {
  const Device device(argc > 1 ? argv[1] : "cuda");
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
  const int64_t scale = argc > 3 ? std::atoll(argv[3]) : 1;
  struct Kind {
    const char* name;
    Model model;
  };
  std::vector<Kind> kinds;
  kinds.push_back({"small: 4 layers of 256, 8 rows, f32", {device, 8, 256 / scale, 4, f32}});
  kinds.push_back({"medium: 8 layers of 1024, 64 rows, bf16", {device, 64, 1024 / scale, 8, bf16}});
  kinds.push_back(
      {"large: 8 layers of 8192, 8192 rows, bf16", {device, 8192 / scale, 8192 / scale, 8, bf16}});
  std::printf("%s\n", device.to_string().c_str());

  for (const Kind& kind : kinds) {
    std::printf("%s\n", kind.name);
    double alone = 0;
    for (int threads : {1, 2, 4}) {
      const int64_t waits = metrics::CounterValue("cuda::StreamWaits").value_or(0);
      const double rate = Throughput(kind.model, threads, seconds);
      if (threads == 1) alone = rate;
      std::printf(
          "  %d threads %10.1f requests/s, %5.2f times one; %lld waits between streams\n", threads,
          rate, rate / alone,
          static_cast<long long>(metrics::CounterValue("cuda::StreamWaits").value_or(0) - waits));
    }
  }

  const Model &small = kinds[0].model, &large = kinds[2].model;
  std::printf("a small request\n");
  auto begin = Clock::now();
  auto timed_out = [&] { return SecondsSince(begin) > seconds; };
  PrintTimes("alone", AnswerUntil(small, timed_out));
  std::atomic<bool> done{false};
  std::vector<double> large_times;
  std::jthread other(
      [&, own = large] { large_times = AnswerUntil(own, [&] { return done.load(); }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  begin = Clock::now();
  PrintTimes("beside large ones", AnswerUntil(small, timed_out));
  done = true;
  other.join();
  PrintTimes("the large ones", std::move(large_times));
  std::printf("%lld wrong answers\n", static_cast<long long>(wrong));
  return wrong == 0 ? 0 : 1;
}
