// Ranks on one host: all-reduces beside those of the bare engine, what agreement costs, training of
// several ranks with one thread each beside one rank with as many threads, and what `hammock plan`
// says of it. On idle cores only: ranks that share a core measure the scheduler; processor times
// are those of the rank's threads. With a number of cores, each rank stays on that many of its own,
// and one that trains alone on those of all.
//
//   distributed_bench [ranks] [largest message, MB] [messages, agreement, training, plan or all]
//     [cores of a rank]
//   hammock launch -n 2 distributed_bench mlp       trains the MLP, for a profile of its ranks

#include <gloo/allreduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <hammock/distributed/data_parallel.h>
#include <hammock/hammock.h>
#include <sched.h>
#include <sys/resource.h>
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
using distributed::Reduction;

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

/// Of this process's threads.
double ProcessorMilliseconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

/// All-reduces of one size.
struct Timing {
  double microseconds = 0;  // median
  double processor = 0;     // mean, microseconds
};

/// `repeat` all-reduces a run, which all ranks begin together.
Timing TimeOf(const Group& world, int runs, int repeat, const std::function<void()>& work) {
  std::vector<double> times;
  double processor = 0;
  for (int run = -3; run < runs; ++run) {
    world.barrier();
    const double before = ProcessorMilliseconds();
    const double time = MicrosecondsOf(work);
    if (run < 0) continue;
    times.push_back(time / repeat);
    processor += (ProcessorMilliseconds() - before) * 1e3 / repeat / runs;
  }
  return {Median(times), processor};
}

/// Steps that are waited for one by one, steps that are submitted before the one before has ended,
/// as in training, and the engine's own.
void CompareMessages(const Group& world, BareEngine& bare, size_t most_bytes) {
  if (world.rank() == 0) {
    std::printf("all-reduce, f32, us: %10s %10s %10s %10s  processor time %8s %8s  bandwidth\n",
                "bytes", "step", "in a row", "engine", "in a row", "engine");
  }
  for (size_t bytes = 1 << 10; bytes <= most_bytes; bytes *= 4) {
    const size_t count = bytes / sizeof(float);
    std::vector<float> values(count, 1);
    Tensor x = ones({static_cast<int64_t>(count)}), result;
    mark_step(true);
    const bool is_small = bytes <= (1 << 20);
    const int runs = is_small ? 200 : 10, repeat = is_small ? 10 : 2;
    const Timing engine = TimeOf(world, runs, 1, [&] { bare.AllReduce(values); });
    const Timing alone = TimeOf(world, runs, 1, [&] {
      result = distributed::all_reduce(x);
      mark_step(true);
    });
    const Timing row = TimeOf(world, runs / 2, repeat, [&] {
      for (int i = 0; i < repeat; ++i) {
        result = distributed::all_reduce(i == 0 ? x : result, Reduction::kMean);
        mark_step(i + 1 == repeat);
      }
    });
    if (world.rank() != 0) continue;
    std::printf("%31zu %10.1f %10.1f %10.1f %24.1f %8.1f  %.2f\n", bytes, alone.microseconds,
                row.microseconds, engine.microseconds, row.processor, engine.processor,
                engine.microseconds / row.microseconds);
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

/// Encoder of 2 layers that tells each code from its neighbours, of the sizes that `hammock plan`
/// is asked about.
struct Encoder : nn::UnaryModule {
  static constexpr int64_t kLayers = 2, kWidth = 256, kHeads = 4, kCodes = 1000, kLength = 64;
  nn::Embedding codes = register_module("codes", nn::Embedding(kCodes, kWidth));
  nn::TransformerEncoder layers = register_module(
      "layers", nn::TransformerEncoder(nn::TransformerLayerOptions{.d_model = kWidth,
                                                                   .nhead = kHeads,
                                                                   .dim_feedforward = 4 * kWidth,
                                                                   .dropout = 0,
                                                                   .batch_first = true},
                                       kLayers));
  Encoder() : UnaryModule("Encoder") {}
  Tensor forward(const Tensor& x) override { return matmul(layers(codes(x)), codes->weight.t()); }
};

/// A model with its data, whose first dim is the batch.
struct Task {
  std::string name;
  std::shared_ptr<nn::Module> model;
  Tensor inputs, targets;
  std::function<Tensor(const Tensor& outputs, const Tensor& targets)> loss;
};

Task MlpTask() {
  manual_seed(0);
  nn::Sequential net(nn::Linear(256, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                     nn::Linear(1024, 16));
  return {"MLP", net, randn({512, 256}), randn({512, 16}),
          [](const Tensor& y, const Tensor& target) { return mse_loss(y, target); }};
}

Task EncoderTask() {
  manual_seed(0);
  auto model = std::make_shared<Encoder>();
  Tensor codes = randint(Encoder::kCodes, {16, Encoder::kLength});
  return {"encoder", model, codes, codes.roll({1}, {1}), [](const Tensor& y, const Tensor& target) {
            return cross_entropy(y.flatten(0, 1), target.flatten());
          }};
}

struct Trained {
  double milliseconds = 0;            // of a step
  double processor_milliseconds = 0;  // of this rank's threads
  double memory = 0;                  // most bytes that were in use
};

/// Medians of steps whose batch is shared by the ranks; one rank has all of it.
Trained Train(const Task& task, const Group* world) {
  optim::Adam optimizer(task.model->parameters(), {.lr = 0.001});
  std::optional<distributed::DataParallel> parallel;
  if (world) parallel.emplace(*task.model, *world);
  const int64_t part = task.inputs.size(0) / (world ? world->size() : 1);
  const int64_t begin = world ? world->rank() * part : 0;
  Tensor x = task.inputs.narrow(0, begin, part).contiguous();
  Tensor y = task.targets.narrow(0, begin, part).contiguous();
  std::vector<double> times, processor_times;
  for (int i = -5; i < 40; ++i) {
    const double before = ProcessorMilliseconds();
    const double time = MicrosecondsOf([&] {
      step([&] {
        optimizer.zero_grad();
        task.loss(parallel ? (*parallel)(x) : (*task.model)(x), y).backward();
        if (parallel) parallel->reduce_gradients();
        optimizer.step();
      });
      mark_step(true);
    });
    if (i < 0) continue;
    times.push_back(time / 1000);
    processor_times.push_back(ProcessorMilliseconds() - before);
  }
  return {Median(times), Median(processor_times),
          static_cast<double>(GetMemoryInfo(x.device()).peak)};
}

/// One rank that trains alone.
struct Alone {
  Trained mlp, encoder;         // with as many threads as there are ranks
  Trained encoder_of_1_thread;  // its processor time is the rate that plans need
};

size_t BytesOfParameters(const Task& task) {
  size_t bytes = 0;
  for (const Tensor& parameter : task.model->parameters()) {
    bytes += static_cast<size_t>(parameter.shape().bytes());
  }
  return bytes;
}

/// The median of all-reduces by the engine itself.
Trained BareAllReduce(const Group& world, BareEngine& bare, size_t bytes) {
  std::vector<float> values(bytes / sizeof(float));
  std::vector<double> times, processor_times;
  for (int i = 0; i < 20; ++i) {
    world.barrier();
    const double before = ProcessorMilliseconds();
    times.push_back(MicrosecondsOf([&] { bare.AllReduce(values); }) / 1000);
    processor_times.push_back(ProcessorMilliseconds() - before);
  }
  return {Median(times), Median(processor_times)};
}

void CompareTraining(const Group& world, BareEngine& bare, const Trained& alone, const Task& task) {
  const size_t bytes = BytesOfParameters(task);
  const Trained together = Train(task, &world);
  const double engine = BareAllReduce(world, bare, bytes).milliseconds;
  if (world.rank() != 0) return;
  const double sum = alone.milliseconds + engine;
  std::printf(
      "%s training: %d ranks of 1 thread %.2f ms, 1 rank of %d threads %.2f ms: %.2f of it; its "
      "sum with the engine's all-reduce of %.1f MB %.2f ms: %.2f of it; processor time %.2f ms a "
      "rank, %.2f ms alone\n",
      task.name.c_str(), world.size(), together.milliseconds, world.size(), alone.milliseconds,
      alone.milliseconds / together.milliseconds, static_cast<double>(bytes) / 1e6, sum,
      sum / together.milliseconds, together.processor_milliseconds, alone.processor_milliseconds);
}

/// What `hammock plan` predicts of the encoder from speeds in processor time, which ranks that
/// share cores with others have too, and what came of it.
void ComparePlan(const Group& world, BareEngine& bare, const Trained& alone) {
  const Task task = EncoderTask();
  const size_t bytes = BytesOfParameters(task);
  const Trained together = Train(task, &world);
  const double all_reduce = BareAllReduce(world, bare, bytes).processor_milliseconds / 1e3;
  if (world.rank() != 0) return;
  const double tokens = static_cast<double>(task.inputs.numel()), n = world.size();
  constexpr double kWidth = Encoder::kWidth;
  const double parameters = Encoder::kLayers * 12 * kWidth * kWidth + Encoder::kCodes * kWidth;
  const double attention = 12.0 * Encoder::kLayers * Encoder::kWidth * Encoder::kLength / 2;
  const double flops = tokens * (6 * parameters + attention);
  std::printf(
      "hammock plan --layers %ld --width %ld --heads %ld --vocabulary %ld --context %ld --batch "
      "%ld "
      "--at-once %ld --element-bytes 4 --keep --overlap 0 -g %d --flops %.4g --host-bandwidth "
      "%.4g\n"
      "  measured: %.2f ms of processor time a step (%.2f ms by the clock), %.4f GB\n",
      Encoder::kLayers, Encoder::kWidth, Encoder::kHeads, Encoder::kCodes, Encoder::kLength,
      task.inputs.size(0), task.inputs.size(0) / world.size(), world.size(),
      flops / alone.processor_milliseconds * 1e3,
      2 * static_cast<double>(bytes) * (n - 1) / n / all_reduce, together.processor_milliseconds,
      together.milliseconds, together.memory / 1e9);
}

int RunRank(const std::string& folder, size_t most_bytes, const std::string& part,
            const Alone& alone) {
  Group world = distributed::init();
  BareEngine bare(world, folder);
  if (part == "messages" || part == "all") CompareMessages(world, bare, most_bytes);
  if (part == "agreement" || part == "all") MeasureAgreement(world);
  if (part == "training" || part == "all") {
    CompareTraining(world, bare, alone.mlp, MlpTask());
    CompareTraining(world, bare, alone.encoder, EncoderTask());
  }
  if (part == "plan" || part == "all") ComparePlan(world, bare, alone.encoder_of_1_thread);
  distributed::shutdown();
  return 0;
}

/// This process stays on `count` cores of those that it may use, the first ones left out.
void StayOn(int first, int count) {
  cpu_set_t may, own;
  CPU_ZERO(&own);
  sched_getaffinity(0, sizeof(may), &may);
  for (int core = 0, index = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &may)) continue;
    if (index >= first && index < first + count) CPU_SET(core, &own);
    ++index;
  }
  if (count > 0 && sched_setaffinity(0, sizeof(own), &own) != 0) std::perror("cores");
}

/// Runs `work` in a process of its own, whose exit code is what it returns.
pid_t Start(const std::function<int()>& work) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int code = work();
  std::fflush(stdout);
  std::_Exit(code);
}

/// Trains in a process of its own with so many threads, each with so many cores.
Trained TrainAlone(int threads, int cores, Task (*task)()) {
  int answer[2];
  Trained trained;
  if (pipe(answer) != 0) std::exit(1);
  const pid_t pid = Start([&] {
    StayOn(0, threads * cores);
    config::Set("cpu.threads", std::to_string(threads));
    trained = Train(task(), nullptr);
    return write(answer[1], &trained, sizeof(trained)) == sizeof(trained) ? 0 : 1;
  });
  if (read(answer[0], &trained, sizeof(trained)) != sizeof(trained)) std::exit(1);
  waitpid(pid, nullptr, 0);
  return trained;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string("mlp")) {
    Group world = distributed::init();
    Train(MlpTask(), &world);
    distributed::shutdown();
    return 0;
  }
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const size_t most_bytes = static_cast<size_t>(argc > 2 ? std::atoi(argv[2]) : 256) << 20;
  const std::string part = argc > 3 ? argv[3] : "all";
  const int cores = argc > 4 ? std::atoi(argv[4]) : 0;
  std::string folder = (std::filesystem::temp_directory_path() / "hammock-bench-XXXXXX").string();
  if (!mkdtemp(folder.data())) return 1;
  std::filesystem::create_directories(folder + "/gloo");
  Alone alone;
  if (part == "training" || part == "all") {
    alone.mlp = TrainAlone(ranks, cores, MlpTask);
    alone.encoder = TrainAlone(ranks, cores, EncoderTask);
  }
  if (part == "plan" || part == "all")
    alone.encoder_of_1_thread = TrainAlone(1, cores, EncoderTask);
  std::vector<pid_t> started;
  for (int rank = 0; rank < ranks; ++rank) {
    started.push_back(Start([&] {
      StayOn(rank * cores, cores);
      setenv("RANK", std::to_string(rank).c_str(), 1);
      setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
      config::Set("cpu.threads", "1");
      config::Set("distributed.store", folder);
      return RunRank(folder + "/gloo", most_bytes, part, alone);
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
