// Random models, sizes, threads, faults and ends, for as long as asked: `soak MINUTES [SEED]`.
//
// Each round is a process of its own. Its threads train small networks of random parts (linear,
// convolution, LSTM, attention, dropout), traced or compiled, on batches of random sizes, beside a
// twin. Some batches cannot be trained on, some steps have too little memory, and some a metric
// that fails; both must have the same bits at the end. Then the process ends in a random way, at a
// random moment. The parent checks how it ended and that its output is whole.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <random>
#include <thread>

#include "check.h"

using namespace hammock;
using namespace trial;

namespace {

using Random = std::mt19937;

int64_t Between(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

/// A part of a random network, from [batch, width] to the same.
struct Part : nn::Module {
  Part(uint32_t kind, int64_t width, std::optional<Generator> random)
      : Module("Part"), kind_(kind % 8), random_(std::move(random)) {
    const int64_t narrow = width / kRows;
    switch (kind_) {
      case 4:
        conv_ = register_module(
            "conv",
            nn::Conv1d(
                {.in_channels = kRows, .out_channels = kRows, .kernel_size = 3, .padding = 1}));
        return;
      case 5:
        lstm_ = register_module(
            "lstm", nn::LSTM({.input_size = narrow, .hidden_size = narrow, .batch_first = true}));
        return;
      case 7:
        norm_ = register_module("norm", nn::LayerNorm(width));
        return;
      default:
        linear_ = register_module("linear", nn::Linear(width, width));
    }
  }
  Tensor forward(const Tensor& x) {
    const Dims flat = {x.size(0), x.size(1)};
    const Tensor rows = x.reshape({flat[0], kRows, flat[1] / kRows});
    switch (kind_) {
      case 0:
        return relu(linear_(x));
      case 1:
        return gelu(linear_(x));
      case 2:
        return tanh(linear_(x));
      case 3:  // dropout, of random numbers of its own
        return linear_(random_ ? x * bernoulli(full_like(x, 0.75), random_) : x);
      case 4:
        return relu(conv_(rows)).reshape(flat);
      case 5:
        return std::get<0>(lstm_(rows)).reshape(flat);
      case 6: {
        const Tensor keys = linear_(x).reshape(rows.sizes());
        return x + scaled_dot_product_attention(rows, keys, keys).reshape(flat);
      }
      default:
        return norm_(x);
    }
  }

 private:
  static constexpr int64_t kRows = 4;
  const uint32_t kind_;
  std::optional<Generator> random_;
  nn::Linear linear_ = nullptr;
  nn::Conv1d conv_ = nullptr;
  nn::LSTM lstm_ = nullptr;
  nn::LayerNorm norm_ = nullptr;
};

struct RandomNet : nn::Module {
  RandomNet(Random& random, int64_t width, const std::optional<Generator>& generator)
      : Module("RandomNet") {
    for (int64_t i = Between(random, 1, 4); i > 0; --i) {
      parts.push_back(register_module(
          "part" + std::to_string(i),
          std::make_shared<Part>(static_cast<uint32_t>(random()), width, generator)));
    }
    head = register_module("head", nn::Linear(width, 10));
  }
  Tensor forward(Tensor x) {
    for (auto& part : parts) x = part->forward(x);
    return head(x);
  }
  std::vector<std::shared_ptr<Part>> parts;
  nn::Linear head = nullptr;
};

struct Trainer {
  /// Compiled functions draw other random numbers than traced ones.
  Trainer(uint32_t seed, int64_t width, bool draws) {
    Random random(seed);
    net =
        std::make_shared<RandomNet>(random, width, draws ? std::optional(generator) : std::nullopt);
  }
  Generator generator{1};
  std::shared_ptr<RandomNet> net;
  std::unique_ptr<optim::Optimizer> state;
  std::function<void(const Tensor& x, const Tensor& labels)> update;

  template <class O, class Options>
  void Use(const Options& options, bool compiled) {
    auto owned = std::make_unique<O>(net->parameters(), options);
    update = [this, optimizer = owned.get()](const Tensor& x, const Tensor& labels) {
      optimizer->zero_grad();
      cross_entropy(net->forward(x), labels).backward();
      optimizer->step();
    };
    if (compiled) {
      update = compile(
          [recorded = update](const Tensor& x, const Tensor& labels) { recorded(x, labels); },
          {*net, *owned});
    }
    state = std::move(owned);
  }
  void UseOptimizer(uint32_t kind, bool compiled) {
    switch (kind % 4) {
      case 0:
        return Use<optim::SGD>(optim::SGDOptions{.lr = 0.01, .momentum = 0.9}, compiled);
      case 1:
        return Use<optim::AdamW>(optim::AdamWOptions{.lr = 1e-3}, compiled);
      case 2:
        return Use<optim::RMSprop>(optim::RMSpropOptions{.lr = 1e-3}, compiled);
      default:
        return Use<optim::Adagrad>(optim::AdagradOptions{.lr = 1e-3}, compiled);
    }
  }
  /// Step `number`, whose random numbers are the same however often it is tried. The metric of the
  /// step may fail, and nothing else then.
  void Step(uint64_t number, const Tensor& x, const Tensor& labels, bool metric_fails = false) {
    generator.set_offset(number << 20);
    Tensor metric;
    step([&] {
      update(x, labels);
      if (metric_fails) metric = index_select(x, 0, full({1}, 12345, i64)).sum();
    });
    if (!metric_fails) return;
    try {
      metric.item();
      std::printf("a metric did not fail\n");
    } catch (const Error&) {
    }
  }
  /// Whether the last step is done, and not undone.
  bool IsDone() const {
    try {
      net->parameters()[0].host();
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  std::vector<HostTensor> Values() const {
    std::vector<HostTensor> values;
    for (const auto& [name, tensor] : net->state_dict()) values.push_back(tensor.host());
    for (const auto& [name, tensor] : state->state_dict()) values.push_back(tensor.host());
    return values;
  }
};

/// A step for which there may be too little memory; it is made again if there was.
void StepWithLittleMemory(Trainer& trainer, uint64_t number, const Tensor& x, const Tensor& labels,
                          int64_t bytes) {
  const Device device;
  sync_multi({x, labels});
  SetMemoryLimit(device, GetMemoryInfo(device).in_use + bytes);
  bool done = false;
  try {
    trainer.Step(number, x, labels);
    done = trainer.IsDone();
  } catch (const OutOfMemory&) {  // while it was recorded
  }
  SetMemoryLimit(device, 0);
  if (!done) trainer.Step(number, x, labels);
}

/// Whether training with faults and without gives the same bits. The limit of memory is all
/// threads', so only one that is alone may set it.
bool TrainBoth(uint32_t seed, bool is_alone) {
  Random random(seed);
  const int64_t width = std::array<int64_t, 4>{8, 16, 64, 256}[random() % 4];
  const auto kind = static_cast<uint32_t>(random());
  const bool compiled = random() % 4 == 0;
  Trainer trainer(seed, width, !compiled), twin(seed, width, !compiled);
  twin.net->load_state_dict(trainer.net->state_dict());
  trainer.UseOptimizer(kind, compiled);
  twin.UseOptimizer(kind, false);
  for (int64_t i = Between(random, 5, 25); i > 0; --i) {
    const auto number = static_cast<uint64_t>(i);
    int64_t batch = Between(random, 1, 40);
    Tensor x = randn({batch, width}), good = randint(0, 10, {batch});
    if (random() % 5 == 0) {
      trainer.Step(number, x, full({batch}, 12345, i64));
      // A read waits for the step and hears of its failure, unless another thread's barrier has.
      trainer.IsDone();
      if (random() % 4 == 0) {
        try {
          wait_device_ops();
        } catch (const Error&) {  // another thread's
        }
      }
    }
    if (is_alone && random() % 5 == 0) {
      StepWithLittleMemory(trainer, number, x, good, Between(random, 0, 1 << 18));
    } else {
      trainer.Step(number, x, good, random() % 6 == 0);
    }
    twin.Step(number, x, good);
    if (random() % 8 == 0) x.sum().item();
  }
  std::vector<HostTensor> first = trainer.Values(), second = twin.Values();
  for (size_t i = 0; i < first.size(); ++i) {
    if (!first[i].SameBits(second[i])) return false;
  }
  return true;
}

Tensor* left_behind = nullptr;
struct ReadsAtExit {
  ~ReadsAtExit() {
    if (left_behind) left_behind->host();
  }
} reads_at_exit;

int Round(uint32_t seed) {
  Random random(seed);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  const int64_t count = Between(random, 1, 4);
  for (int64_t t = 0; t < count; ++t) {
    threads.emplace_back([&wrong, count, own = static_cast<uint32_t>(random())] {
      if (!TrainBoth(own, count == 1)) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (wrong > 0) {
    std::printf("bits differ\n");
    return 1;
  }
  // Work that is under way at the end.
  auto* kept = new Tensor(ones({8}));  // outlives every destructor
  mark_step(true);
  if (random() % 2) left_behind = kept;
  Tensor busy = randn({512, 512});
  std::thread detached([busy] {
    try {
      Tensor x = busy;
      for (int i = 0; i < 1000; ++i) step([&] { x = tanh(matmul(x, busy) * 0.01); });
    } catch (...) {
    }
  });
  detached.detach();
  usleep(static_cast<useconds_t>(random() % 50000));
  std::printf("round is done\n");
  switch (random() % 4) {
    case 0:
      std::exit(0);
    case 1:
      std::fflush(stdout);
      std::quick_exit(0);
    case 2:
      std::fflush(stdout);
      _exit(0);
    default:
      return 0;
  }
}

/// Whether a round ended well.
bool RunRound(const char* program, uint32_t seed) {
  std::string command = std::string(program) + " round " + std::to_string(seed) + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (size_t count = fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, count);
  int status = pclose(pipe);
  if (status == 0 && Contains(output, "round is done\n")) return true;
  std::printf("round %u ended with status %d:\n%s\n", seed, status, output.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::string first = argc > 1 ? argv[1] : "";
  if (first == "round") return Round(static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)));
  if (first.empty()) {
    std::printf("soak MINUTES [SEED]\n");
    return 2;
  }
  double end = Seconds() + 60 * std::strtod(argv[1], nullptr);
  uint32_t seed = argc > 2 ? static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)) : 1;
  int rounds = 0;
  for (; Seconds() < end && failures < 5; ++rounds, ++seed) {
    Check(RunRound(argv[0], seed), "round " + std::to_string(seed));
    if (rounds % 20 == 19) std::printf("%d rounds, next seed %u\n", rounds + 1, seed + 1);
    std::fflush(stdout);
  }
  std::printf("%d rounds\n", rounds);
  return Result();
}
