// Random models, sizes, threads, faults and ends, for as long as asked: `soak MINUTES [SEED]`.
//
// Each round is a process of its own. Its threads train small networks of random form on batches of
// random sizes, some of which cannot be trained on, beside a twin that gets the good ones only;
// both must have the same bits at the end. Then the process ends in a random way, at a random
// moment. The parent checks how it ended and that its output is whole.
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

nn::Sequential RandomNet(Random& random, int64_t width) {
  nn::Sequential net;
  for (int64_t i = Between(random, 1, 4); i > 0; --i) {
    net->push_back(nn::Linear(width, width));
    switch (random() % 5) {
      case 0:
        net->push_back(nn::ReLU());
        break;
      case 1:
        net->push_back(nn::GELU());
        break;
      case 2:
        net->push_back(nn::LayerNorm(width));
        break;
      case 3:
        net->push_back(nn::Tanh());
        break;
      default:
        break;
    }
  }
  net->push_back(nn::Linear(width, 10));
  return net;
}

struct Trainer {
  nn::Sequential net;
  std::unique_ptr<optim::Optimizer> state;
  std::function<void()> update;

  template <class O, class Options>
  void Use(const Options& options) {
    auto owned = std::make_unique<O>(net->parameters(), options);
    update = [optimizer = owned.get()] { optimizer->step(); };
    state = std::move(owned);
  }
  void UseOptimizer(uint32_t kind) {
    switch (kind % 4) {
      case 0:
        return Use<optim::SGD>(optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
      case 1:
        return Use<optim::AdamW>(optim::AdamWOptions{.lr = 1e-3});
      case 2:
        return Use<optim::RMSprop>(optim::RMSpropOptions{.lr = 1e-3});
      default:
        return Use<optim::Adagrad>(optim::AdagradOptions{.lr = 1e-3});
    }
  }
  void Step(const Tensor& x, const Tensor& labels) {
    step([&] {
      state->zero_grad();
      cross_entropy(net(x), labels).backward();
      update();
    });
  }
  std::vector<HostTensor> Values() const {
    std::vector<HostTensor> values;
    for (const auto& [name, tensor] : net->state_dict()) values.push_back(tensor.host());
    for (const auto& [name, tensor] : state->state_dict()) values.push_back(tensor.host());
    return values;
  }
};

/// Whether training with faults and without gives the same bits.
bool TrainBoth(uint32_t seed) {
  Random random(seed);
  int64_t width = std::array<int64_t, 4>{8, 16, 64, 256}[random() % 4];
  Trainer trainer, twin;
  trainer.net = RandomNet(random, width);
  Random again(seed);
  again.discard(1);
  twin.net = RandomNet(again, width);
  twin.net->load_state_dict(trainer.net->state_dict());
  uint32_t kind = static_cast<uint32_t>(random());
  trainer.UseOptimizer(kind);
  twin.UseOptimizer(kind);
  for (int64_t i = Between(random, 5, 25); i > 0; --i) {
    int64_t batch = Between(random, 1, 40);
    Tensor x = randn({batch, width}), good = randint(0, 10, {batch});
    if (random() % 5 == 0) {
      trainer.Step(x, full({batch}, 12345, i64));
      // A read waits for the step and hears of its failure, unless another thread's barrier has.
      try {
        trainer.net->parameters()[0].host();
      } catch (const Error&) {
      }
      if (random() % 4 == 0) {
        try {
          wait_device_ops();
        } catch (const Error&) {  // another thread's
        }
      }
    }
    trainer.Step(x, good);
    twin.Step(x, good);
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
  for (int64_t t = Between(random, 1, 4); t > 0; --t) {
    threads.emplace_back([&wrong, own = static_cast<uint32_t>(random())] {
      if (!TrainBoth(own)) ++wrong;
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
