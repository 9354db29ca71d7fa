// Serving with threads. Requests of several threads of one process beside as many processes with
// one thread each, in turns; then the latency of a small request beside a large one that never
// ends.
//
//   serve_bench [threads] [seconds of each measurement] [rounds]

#include <fcntl.h>
#include <hammock/hammock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

using namespace hammock;

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

nn::Sequential MakeNet(int layers, int64_t width) {
  nn::Sequential net;
  for (int i = 0; i < layers; ++i) {
    net->push_back(nn::Linear(width, width));
    net->push_back(nn::GELU());
  }
  net->eval();
  return net;
}

void Answer(nn::Sequential& net, const Tensor& x) { net(x).sum().item(); }

/// Warms up, says so, and answers requests until the time is over; how many.
template <class Start>
int64_t Requests(nn::Sequential& net, double seconds, Start start) {
  NoGradGuard no_grad;
  Tensor x = randn({16, 256});
  for (int i = 0; i < 30; ++i) Answer(net, x);
  start();
  auto begin = Clock::now();
  int64_t count = 0;
  for (; SecondsSince(begin) < seconds; ++count) Answer(net, x);
  return count;
}

double OfThreads(int threads, double seconds) {
  nn::Sequential net = MakeNet(20, 256);
  std::atomic<int> ready{0};
  std::atomic<int64_t> total{0};
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      total += Requests(net, seconds, [&] {
        ++ready;
        while (ready < threads) std::this_thread::yield();
      });
    });
  }
  for (std::thread& thread : all) thread.join();
  return static_cast<double>(total) / seconds;
}

/// A process of OfProcesses: a byte says that it is ready, another one that it may go on.
int Worker(double seconds) {
  nn::Sequential net = MakeNet(20, 256);
  int64_t count = Requests(net, seconds, [] {
    char byte = 0;
    if (write(1, &byte, 1) != 1 || read(0, &byte, 1) != 1) std::abort();
  });
  return write(1, &count, sizeof count) == sizeof count ? 0 : 1;
}

double OfProcesses(int processes, double seconds, const char* program) {
  struct Child {
    pid_t pid;
    int in, out;
  };
  std::vector<Child> children;
  for (int i = 0; i < processes; ++i) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) std::abort();
    pid_t pid = fork();
    if (pid == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      setenv("HAMMOCK_CPU_THREADS", "1", 1);
      execl(program, program, "worker", std::to_string(seconds).c_str(), nullptr);
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    children.push_back({pid, to[1], from[0]});
  }
  char byte = 0;
  for (const Child& child : children) {
    if (read(child.out, &byte, 1) != 1) std::abort();
  }
  for (const Child& child : children) {
    if (write(child.in, &byte, 1) != 1) std::abort();
  }
  int64_t total = 0;
  for (const Child& child : children) {
    int64_t count = 0;
    if (read(child.out, &count, sizeof count) != sizeof count) std::abort();
    total += count;
    waitpid(child.pid, nullptr, 0);
    close(child.in);
    close(child.out);
  }
  return static_cast<double>(total) / seconds;
}

double At(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

/// Milliseconds of a request of about 1 ms every few milliseconds.
std::vector<double> Latencies(nn::Sequential& net, const Tensor& x, double seconds) {
  std::vector<double> times;
  for (auto begin = Clock::now(); SecondsSince(begin) < seconds;) {
    auto start = Clock::now();
    Answer(net, x);
    times.push_back(1e3 * SecondsSince(start));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return times;
}

void Report(const char* what, const std::vector<double>& times) {
  std::printf("%-28s %6zu requests, median %.2f ms, p99 %.2f ms, most %.2f ms\n", what,
              times.size(), At(times, 0.5), At(times, 0.99), At(times, 1));
}

void MeasureLatency(double seconds) {
  NoGradGuard no_grad;
  nn::Sequential small = MakeNet(30, 256), large = MakeNet(60, 1024);
  Tensor x = randn({16, 256}), big = randn({768, 1024});
  for (int i = 0; i < 30; ++i) Answer(small, x);
  for (int i = 0; i < 2; ++i) Answer(large, big);
  Report("small request alone", Latencies(small, x, seconds));
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0};
  auto begin = Clock::now();
  std::thread endless([&] {
    NoGradGuard of_thread;
    for (; !stop; ++answered) Answer(large, big);
  });
  Report("beside a large one", Latencies(small, x, seconds));
  stop = true;
  endless.join();
  std::printf("%-28s %.2f s each\n", "the large one", SecondsSince(begin) / answered);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "worker") return Worker(std::atof(argv[2]));
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  std::vector<double> ratios;
  for (int i = 0; i < rounds; ++i) {
    double of_processes = OfProcesses(threads, seconds, "/proc/self/exe");
    double of_threads = OfThreads(threads, seconds);
    std::printf("%d processes %.0f/s, %d threads %.0f/s: %.2f\n", threads, of_processes, threads,
                of_threads, of_threads / of_processes);
    ratios.push_back(of_threads / of_processes);
  }
  std::printf("threads against processes: median %.2f\n", At(ratios, 0.5));
  MeasureLatency(3 * seconds);
}
