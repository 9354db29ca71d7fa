// Ranks on one host: all-reduces beside those of the bare engine, what agreement costs, training of
// several ranks with one thread each beside one rank with as many threads. On idle cores only:
// ranks that share a core measure the scheduler.
//
//   distributed_bench [ranks] [largest message, MB] [part: messages, agreement, training; all]

#include <gloo/allreduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <hammock/distributed/data_parallel.h>
#include <hammock/hammock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

using namespace hammock;
using distributed::Group;

namespace {

using Clock = std::chrono::steady_clock;

double MicrosecondsOf(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Gloo without anything around it.
class BareEngine {
 public:
  BareEngine(const Group& world, const std::string& folder)
      : context_(std::make_shared<gloo::rendezvous::Context>(world.rank(), world.size())) {
    gloo::transport::tcp::attr attr;
    attr.hostname = "127.0.0.1";
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(folder);
    context_->connectFullMesh(store, device);
  }
  void AllReduce(std::vector<float>& values) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(
        [](void* out, const void* a, const void* b, size_t count) {
          for (size_t i = 0; i < count; ++i) {
            static_cast<float*>(out)[i] =
                static_cast<const float*>(a)[i] + static_cast<const float*>(b)[i];
          }
        }));
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

/// The same sizes, in turns.
void CompareMessages(const Group& world, BareEngine& bare, size_t most_bytes) {
  if (world.rank() == 0) std::printf("all-reduce, f32: median of a step beside the engine's own\n");
  for (size_t bytes = 1 << 10; bytes <= most_bytes; bytes *= 4) {
    const size_t count = bytes / sizeof(float);
    std::vector<float> values(count, 1);
    Tensor x = ones({static_cast<int64_t>(count)}), result;
    mark_step(true);
    const int runs = bytes <= (1 << 20) ? 200 : 10;
    std::vector<double> ours, theirs;
    for (int run = -3; run < runs; ++run) {
      world.barrier();
      const double bare_time = MicrosecondsOf([&] { bare.AllReduce(values); });
      world.barrier();
      const double own_time = MicrosecondsOf([&] {
        result = distributed::all_reduce(x);
        mark_step(true);
      });
      if (run < 0) continue;
      theirs.push_back(bare_time);
      ours.push_back(own_time);
    }
    const double own = Median(ours), engine = Median(theirs);
    if (world.rank() != 0) continue;
    std::printf(
        "%10zu bytes  step %10.1f us  engine %10.1f us  difference %8.1f us  bandwidth %.2f\n",
        bytes, own, engine, own - engine, engine / own);
  }
}

/// Of steps whose collective is one element, and whose ranks are otherwise busy alike.
void MeasureAgreement(const Group& world) {
  Tensor x = ones({1}), work = randn({256, 256});
  mark_step(true);
  Tensor kept;
  for (int i = 0; i < 500; ++i) {
    Tensor y = matmul(work, matmul(work, work));
    kept = distributed::all_reduce(x) + sum(y) * Scalar(0.0);
    mark_step();
  }
  mark_step(true);
  if (world.rank() == 0)
    std::printf("%s\n", metrics::Report({}, {"distributed::AgreementTime"}).c_str());
}

struct Trained {
  double milliseconds;  // of a step
  size_t bytes;         // of gradients
};

/// Median step of an MLP whose batch is shared by the ranks.
Trained TrainMlp(const Group* world) {
  manual_seed(0);
  nn::Sequential net(nn::Linear(256, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                     nn::Linear(1024, 16));
  optim::SGD optimizer(net->parameters(), {.lr = 0.01});
  std::optional<distributed::DataParallel> parallel;
  if (world) parallel.emplace(*net, *world);
  const int64_t batch = 512 / (world ? world->size() : 1);
  Tensor x = randn({batch, 256}), y = randn({batch, 16});
  std::vector<double> times;
  for (int i = -5; i < 40; ++i) {
    const double time = MicrosecondsOf([&] {
      step([&] {
        optimizer.zero_grad();
        mse_loss(parallel ? (*parallel)(x) : net(x), y).backward();
        if (parallel) parallel->reduce_gradients();
        optimizer.step();
      });
      mark_step(true);
    });
    if (i >= 0) times.push_back(time / 1000);
  }
  size_t bytes = 0;
  for (const Tensor& parameter : net->parameters()) {
    bytes += static_cast<size_t>(parameter.shape().bytes());
  }
  return {Median(times), bytes};
}

void CompareTraining(const Group& world, BareEngine& bare, double alone_ms) {
  const Trained together = TrainMlp(&world);
  std::vector<float> gradients(together.bytes / sizeof(float));
  std::vector<double> times;
  for (int i = 0; i < 10; ++i) {
    world.barrier();
    times.push_back(MicrosecondsOf([&] { bare.AllReduce(gradients); }) / 1000);
  }
  const double sum = alone_ms + Median(times);
  if (world.rank() != 0) return;
  std::printf(
      "MLP training: %d ranks of 1 thread %.2f ms, 1 rank of %d threads %.2f ms, its sum with the "
      "engine's all-reduce of %.1f MB %.2f ms: %.2f of it\n",
      world.size(), together.milliseconds, world.size(), alone_ms,
      static_cast<double>(together.bytes) / 1e6, sum, sum / together.milliseconds);
}

int RunRank(const std::string& folder, size_t most_bytes, const std::string& part,
            double alone_ms) {
  Group world = distributed::init();
  BareEngine bare(world, folder);
  if (part == "messages" || part == "all") CompareMessages(world, bare, most_bytes);
  if (part == "agreement" || part == "all") MeasureAgreement(world);
  if (part == "training" || part == "all") CompareTraining(world, bare, alone_ms);
  distributed::shutdown();
  return 0;
}

/// Runs `work` in a process of its own, whose exit code is what it returns.
pid_t Start(const std::function<int()>& work) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int code = work();
  std::fflush(stdout);
  std::_Exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const size_t most_bytes = static_cast<size_t>(argc > 2 ? std::atoi(argv[2]) : 256) << 20;
  const std::string part = argc > 3 ? argv[3] : "all";
  std::string folder = (std::filesystem::temp_directory_path() / "hammock-bench-XXXXXX").string();
  if (!mkdtemp(folder.data())) return 1;
  std::filesystem::create_directories(folder + "/gloo");
  // The one that trains alone has a process of its own, with as many threads as there are ranks.
  int answer[2];
  double alone_ms = 0;
  if (pipe(answer) != 0) return 1;
  const pid_t alone = Start([&] {
    config::Set("cpu.threads", std::to_string(ranks));
    const double ms = part == "training" || part == "all" ? TrainMlp(nullptr).milliseconds : 0;
    return write(answer[1], &ms, sizeof(ms)) == sizeof(ms) ? 0 : 1;
  });
  waitpid(alone, nullptr, 0);
  if (read(answer[0], &alone_ms, sizeof(alone_ms)) != sizeof(alone_ms)) return 1;
  std::vector<pid_t> started;
  for (int rank = 0; rank < ranks; ++rank) {
    started.push_back(Start([&] {
      setenv("RANK", std::to_string(rank).c_str(), 1);
      setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
      config::Set("cpu.threads", "1");
      config::Set("distributed.store", folder);
      return RunRank(folder + "/gloo", most_bytes, part, alone_ms);
    }));
  }
  int result = 0;
  for (pid_t pid : started) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) result = 1;
  }
  std::filesystem::remove_all(folder);
  return result;
}
