/// The speed of the CUDA backend on the workloads of the issue, in milliseconds: the median of
/// synchronised calls. bench/gpu/peers.py runs the same ones on other systems.
///
///   gpu_bench [--filter TEXT] [--text]     with the steps of each

#include <hammock/autograd.h>
#include <hammock/config.h>
#include <hammock/hammock.h>
#include <hammock/lazy/backend_interface.h>
#include <hammock/metrics.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace hammock;

namespace {

const Device& Gpu() {
  static const Device device("cuda");
  return device;
}

Tensor Random(const Dims& sizes, DType dtype = f32, double scale = 1) {
  return (randn(sizes, f32, Gpu()) * scale).to(dtype);
}

/// Waits for the device itself.
void Finish() { wait_device_ops({Gpu()}); }

double Median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Times {
  double whole;  ///< of a synchronised call, in ms
  double host;   ///< until it has returned, before the device has finished
};

Times Measure(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  auto ms_since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  for (int i = 0; i < 12; ++i) call();
  Finish();
  std::vector<double> whole, host;
  auto begin = Clock::now();
  while (whole.size() < 10 || (whole.size() < 200 && ms_since(begin) < 1000)) {
    auto start = Clock::now();
    call();
    host.push_back(ms_since(start));
    Finish();
    whole.push_back(ms_since(start));
  }
  return {Median(std::move(whole)), Median(std::move(host))};
}

void Sync(const Tensor& tensor) {
  LazyGraphExecutor::Get()->SyncTensorsGraph(std::span(&tensor, 1));
}

void Update(std::vector<Tensor>& parameters, double rate) {
  NoGradGuard no_grad;
  for (Tensor& w : parameters) {
    w.sub_(w.grad(), rate);
    w.set_grad(Tensor());
  }
}

/// A training step of `Net`, recorded anew each time or compiled once.
template <class Net>
std::function<void()> TrainingStep(bool compiled) {
  auto net = std::make_shared<Net>();
  for (Tensor& w : net->p) w.requires_grad_();
  if (compiled) {
    auto step = compile([net] { return net->Train(); }, {net->p, net->inputs()});
    return [step] { step(); };
  }
  return [net] {
    net->Train();
    mark_step();
  };
}

struct Block {
  static constexpr int64_t kBatch = 8, kTokens = 1024, kWidth = 1024, kHeads = 16;
  Tensor x = Random({kBatch, kTokens, kWidth}, bf16);
  Tensor target = Random({kBatch, kTokens, kWidth}, bf16);
  std::vector<Tensor> p;

  Block() {
    auto weight = [](int64_t in, int64_t out) {
      return Random({out, in}, bf16, 1 / std::sqrt(static_cast<double>(in)));
    };
    p = {weight(kWidth, 3 * kWidth), Random({3 * kWidth}, bf16, 0.1),
         weight(kWidth, kWidth),     Random({kWidth}, bf16, 0.1),
         weight(kWidth, 4 * kWidth), Random({4 * kWidth}, bf16, 0.1),
         weight(4 * kWidth, kWidth), Random({kWidth}, bf16, 0.1),
         Random({kWidth}, bf16),     Random({kWidth}, bf16),
         Random({kWidth}, bf16),     Random({kWidth}, bf16)};
    Finish();
  }

  Tensor Forward() const {
    constexpr int64_t head = kWidth / kHeads;
    std::vector<Tensor> qkv = linear(layer_norm(x, {kWidth}, p[8], p[9]), p[0], p[1])
                                  .view({kBatch, kTokens, 3, kHeads, head})
                                  .permute({2, 0, 3, 1, 4})
                                  .unbind(0);
    Tensor mixed = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
                       .permute({0, 2, 1, 3})
                       .reshape({kBatch, kTokens, kWidth});
    Tensor y = x + linear(mixed, p[2], p[3]);
    Tensor m = gelu(linear(layer_norm(y, {kWidth}, p[10], p[11]), p[4], p[5]));
    return y + linear(m, p[6], p[7]);
  }

  Tensor Train() {
    Tensor error = Forward() - target;
    Tensor loss = mean(error * error);
    loss.backward();
    Update(p, 1e-3);
    return loss;
  }
  std::vector<Tensor> inputs() const { return {x, target}; }
};

struct Mlp {
  Tensor x = Random({128, 784});
  Tensor y = randint(0, 10, {128}, i64, Gpu());
  std::vector<Tensor> p = {Random({512, 784}, f32, 0.03), zeros({512}, f32, Gpu()),
                           Random({512, 512}, f32, 0.04), zeros({512}, f32, Gpu()),
                           Random({10, 512}, f32, 0.04),  zeros({10}, f32, Gpu())};
  Tensor Train() {
    Tensor h = relu(linear(x, p[0], p[1]));
    h = relu(linear(h, p[2], p[3]));
    Tensor loss = cross_entropy(linear(h, p[4], p[5]), y);
    loss.backward();
    Update(p, 0.01);
    return loss;
  }
  std::vector<Tensor> inputs() const { return {x, y}; }
};

/// 100 kernels, each of which needs the one before.
auto SmallKernels() {
  return compile([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 50; ++i) y = matmul(y, x) * 0.01;
    return y;
  });
}

/// With `inputs` tensors in turn; more than 8 are more sets of addresses than are kept.
std::function<void()> SmallKernelsStep(size_t inputs) {
  auto step = SmallKernels();
  auto xs = std::make_shared<std::vector<Tensor>>();
  for (size_t i = 0; i < inputs; ++i) xs->push_back(Random({32, 32}));
  auto next = std::make_shared<size_t>(0);
  return [=] { Tensor y = step((*xs)[(*next)++ % inputs]); };
}

/// A step of Adam for 100 parameters.
std::function<void()> AdamStep() {
  struct State {
    std::vector<Tensor> w, m, v, g;
  };
  auto state = std::make_shared<State>();
  for (int64_t i = 0; i < 100; ++i) {
    Dims sizes = {1 + i % 7 * 100, 64};
    for (auto* list : {&state->w, &state->m, &state->v, &state->g}) {
      list->push_back(zeros(sizes, f32, Gpu()) + 0.5);
    }
  }
  auto step = compile(
      [state] {
        NoGradGuard no_grad;
        for (size_t i = 0; i < state->w.size(); ++i) {
          Tensor &w = state->w[i], &m = state->m[i], &v = state->v[i], &g = state->g[i];
          m.copy_(m * 0.9 + g * 0.1);
          v.copy_(v * 0.999 + g * g * 0.001);
          w.sub_(m / (sqrt(v) + 1e-8), 0.001);
        }
        return state->w[0];
      },
      {state->w, state->m, state->v, state->g});
  return [step] { step(); };
}

/// The host's time of the first calls of a program, in ms: it is compiled, run as it is, recorded,
/// replayed.
void PrintFirstCalls() {
  for (bool same : {true, false}) {
    auto step = SmallKernels();
    std::vector<Tensor> xs;
    for (int i = 0; i < 20; ++i) xs.push_back(Random({32, 32}));
    mark_step();
    Finish();
    std::printf("first calls, %-21s  ", same ? "same memory" : "ever new memory");
    std::vector<Tensor> kept;
    for (size_t i = 0; i < 20; ++i) {
      auto start = std::chrono::steady_clock::now();
      Tensor y = step(xs[same ? 0 : i]);
      std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      Finish();
      if (!same) kept.push_back(y);
      std::printf(" %.3f", took.count());
    }
    std::printf("\n");
  }
}

/// Where the time of a row went, in microseconds a run; with `cuda.time_kernels`.
void PrintKernels() {
  static std::map<std::string, std::pair<double, double>> before;  // total, samples
  for (const std::string& name : metrics::MetricNames()) {
    if (name.rfind("cuda::kernel::", 0) != 0) continue;
    auto value = metrics::MetricValue(name);
    if (!value) continue;
    auto& [total, samples] = before[name];
    double runs = static_cast<double>(value->samples) - samples;
    if (runs > 0) {
      std::printf("    %9.1f us  %s\n", (value->total - total) / runs / 1e3, name.c_str() + 12);
    }
    total = value->total;
    samples = static_cast<double>(value->samples);
  }
}

struct Row {
  const char* name;
  double goal;
  std::function<std::function<void()>()> make;
};

std::vector<Row> Rows() {
  return {
      {"gelu(x*w+b)+x 64M f32", 0.27,
       [] {
         Tensor x = Random({1 << 26}), w = Random({1 << 26}), b = Random({1 << 26});
         return [=] {
           Tensor y = gelu(x * w + b) + x;
           Sync(y);
         };
       }},
      {"softmax 16384x4096 f32", 0.145,
       [] {
         Tensor x = Random({16384, 4096});
         return [=] {
           Tensor y = softmax(x, -1);
           Sync(y);
         };
       }},
      {"layer norm 16384x4096 f32", 0.145,
       [] {
         Tensor x = Random({16384, 4096}), w = Random({4096}), b = Random({4096});
         return [=] {
           Tensor y = layer_norm(x, {4096}, w, b);
           Sync(y);
         };
       }},
      {"sum over rows 16384x4096 f32", 0,
       [] {
         Tensor x = Random({16384, 4096});
         return [=] {
           Tensor y = sum(x, {0});
           Sync(y);
         };
       }},
      {"sum of all 64M f32", 0,
       [] {
         Tensor x = Random({1 << 26});
         return [=] {
           Tensor y = sum(x);
           Sync(y);
         };
       }},
      {"transpose 8192x8192 f32", 0,
       [] {
         Tensor x = Random({8192, 8192});
         return [=] {
           Tensor y = x.t().contiguous();
           Sync(y);
         };
       }},
      {"200 scalar ops on 16 elements", 0.045,
       [] {
         Tensor x = Random({16});
         return [=] {
           Tensor y = x;
           for (int i = 0; i < 100; ++i) y = y * 0.99 + 0.01;
           Sync(y);
         };
       }},
      {"matmul 8192 bf16", 0,
       [] {
         Tensor a = Random({8192, 8192}, bf16), b = Random({8192, 8192}, bf16);
         return [=] {
           Tensor y = matmul(a, b);
           Sync(y);
         };
       }},
      {"transformer block forward bf16", 0.60,
       [] {
         auto block = std::make_shared<Block>();
         return [=] {
           Tensor y = block->Forward();
           Sync(y);
         };
       }},
      {"transformer block train SGD bf16", 2.0, [] { return TrainingStep<Block>(true); }},
      {"block train, recorded each time", 0, [] { return TrainingStep<Block>(false); }},
      {"MLP train, batch 128, f32 highest", 0, [] { return TrainingStep<Mlp>(true); }},
      {"MLP train, batch 128, f32 high", 0.08,
       [] {
         config::Set<config::kMatmulPrecision>("high");
         return TrainingStep<Mlp>(true);
       }},
      {"MLP train high, recorded each time", 0, [] { return TrainingStep<Mlp>(false); }},
      {"MLP train high, 50 steps in a row", 0,
       [] {
         auto step = TrainingStep<Mlp>(true);
         return [step] {
           for (int i = 0; i < 50; ++i) step();
         };
       }},
      {"Adam, 100 parameters", 0, [] { return AdamStep(); }},
      {"100 small kernels", 0, [] { return SmallKernelsStep(1); }},
      {"100 small kernels, new memory", 0, [] { return SmallKernelsStep(24); }},
  };
}

}  // namespace

int main(int argc, char** argv) {
  std::string filter;
  bool text = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--text") text = true;
    if (std::string(argv[i]) == "--filter" && i + 1 < argc) filter = argv[++i];
  }
  for (const Row& row : Rows()) {
    if (std::string(row.name).find(filter) == std::string::npos) continue;
    try {
      auto [ms, host] = Measure(row.make());
      std::printf("%-36s %8.3f ms   host %.3f", row.name, ms, host);
      if (row.goal > 0) std::printf("   goal %.3f (%.2fx)", row.goal, ms / row.goal);
      std::printf("\n");
      auto* executor = LazyGraphExecutor::Get();
      if (auto hash = executor->GetLatestHash(); text && hash) {
        std::printf("%s\n", executor->GetCachedText(*hash, "backend").c_str());
      }
    } catch (const std::exception& error) {
      std::printf("%-36s failed: %s\n", row.name, error.what());
    }
    if (config::GetText("cuda.time_kernels") == "true") PrintKernels();
    std::fflush(stdout);
  }
  if (std::string("first calls").find(filter) != std::string::npos) PrintFirstCalls();
}
