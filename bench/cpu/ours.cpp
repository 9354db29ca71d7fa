#include "ours.h"

#include <hammock/autograd.h>
#include <hammock/hammock.h>
#include <hammock/metrics.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>

namespace ours {

using namespace hammock;
using bench::Array;
using bench::Row;
using bench::Side;
using bench::Work;

namespace {

Tensor Chain(const std::vector<Tensor>& in, int64_t ops) {
  Tensor y = in[0];
  for (int64_t i = 0; i < ops; ++i) y = i % 2 ? y * in[1] : y + in[1];
  return y;
}

Tensor LeNet(const std::vector<Tensor>& in) {
  Tensor h = max_pool2d(relu(conv2d(in[0], in[1], in[2])), {2});
  h = max_pool2d(relu(conv2d(h, in[3], in[4])), {2});
  h = relu(linear(h.view({8, 1024}), in[5], in[6]));
  return linear(h, in[7], in[8]);
}

Tensor ResNetBlock(const std::vector<Tensor>& in) {
  auto norm = [&](const Tensor& x, size_t i) {
    return batch_norm(x, in[i], in[i + 1], in[i + 2], in[i + 3]);
  };
  Tensor h = relu(norm(conv2d(in[0], in[1], std::nullopt, {1}, {1}), 3));
  return relu(norm(conv2d(h, in[2], std::nullopt, {1}, {1}), 7) + in[0]);
}

Tensor Encoder(const std::vector<Tensor>& in) {
  using bench::kBatch, bench::kHeads, bench::kTokens, bench::kWidth;
  constexpr int64_t head = kWidth / kHeads;
  const Tensor& x = in[0];
  const Tensor* p = &in[2];
  Tensor qkv = addmm(p[1], layer_norm(x, {kWidth}, p[8], p[9]), p[0])
                   .view({kBatch, kTokens, 3, kHeads, head})
                   .permute({2, 0, 3, 1, 4})
                   .contiguous();
  auto part = [&](int64_t i) { return qkv.select(0, i).reshape({kBatch * kHeads, kTokens, head}); };
  Tensor scores =
      bmm(part(0), part(1).transpose(1, 2)) * (1.0 / std::sqrt(static_cast<double>(head)));
  Tensor mixed = bmm(softmax(scores, -1), part(2))
                     .view({kBatch, kHeads, kTokens, head})
                     .permute({0, 2, 1, 3})
                     .reshape({kBatch * kTokens, kWidth});
  Tensor y = x + addmm(p[3], mixed, p[2]);
  Tensor m = gelu(addmm(p[5], layer_norm(y, {kWidth}, p[10], p[11]), p[4]));
  return y + addmm(p[7], m, p[6]);
}

Tensor Infer(const Row& row, const std::vector<Tensor>& in) {
  auto affine = [&] { return in[0] * in[2] + in[3]; };
  switch (row.work) {
    case Work::kChain:
      return Chain(in, row.dims[0]);
    case Work::kRelu:
      return relu(affine()) + in[1];
    case Work::kGeluErf:
      return gelu(affine()) + in[1];
    case Work::kGeluTanh:
      return gelu(affine(), "tanh") + in[1];
    case Work::kSoftmax:
      return softmax(in[0], -1);
    case Work::kLayerNorm:
      return layer_norm(in[0], {bench::kColumns}, in[2], in[3]);
    case Work::kScaledSoftmax:
      return softmax(in[0] / 8, -1) * in[1];
    case Work::kExp:
      return exp(in[0]);
    case Work::kTanh:
      return tanh(in[0]);
    case Work::kErf:
      return erf(in[0]);
    case Work::kSumRows:
      return sum(in[0], {-1});
    case Work::kSumColumns:
      return sum(in[0], {0});
    case Work::kTranspose:
      return in[0].t().contiguous();
    case Work::kMatmul:
    case Work::kMatmulBf16:
      return mm(in[0], in[1]);
    case Work::kLeNet:
      return LeNet(in);
    case Work::kResNetBlock:
      return ResNetBlock(in);
    case Work::kEncoder:
      return Encoder(in);
    default:
      return Tensor();
  }
}

Tensor Loss(const Row& row, const std::vector<Tensor>& in) {
  if (row.work == Work::kEncoderTrain) {
    Tensor error = Encoder(in) - in[1];
    return mean(error * error);
  }
  Tensor h = relu(linear(in[0], in[2], in[3]));
  h = relu(linear(h, in[4], in[5]));
  return nll_loss(log_softmax(linear(h, in[6], in[7]), 1), in[1]);
}

Tensor TrainStep(const Row& row, std::vector<Tensor>& in) {
  Tensor loss = Loss(row, in);
  loss.backward();
  NoGradGuard no_grad;
  for (size_t i = 2; i < in.size(); ++i) {
    in[i].sub_(in[i].grad(), bench::kLearningRate);
    in[i].set_grad(Tensor());
  }
  return loss.detach();
}

Tensor Upload(const Array& array, const Row& row) {
  Dims sizes(array.sizes);
  if (array.integers) {
    return tensor(std::vector<int64_t>(array.values.begin(), array.values.end()), sizes);
  }
  if (row.work == Work::kMatmulBf16) return tensor(array.values, sizes, bf16);
  return tensor(array.values, sizes);
}

struct State {
  std::vector<Tensor> in;
  Tensor out;
};

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Sync(const Tensor& tensor) {
  LazyGraphExecutor::Get()->SyncTensorsGraph(std::span(&tensor, 1));
}

/// A chain of ten ops; another one for every number.
Tensor NumberedChain(int number, const Tensor& x, const Tensor& y) {
  Tensor z = x;
  for (int i = 0; i < 10; ++i, number /= 3) {
    if (number % 3 == 0) z = z + y;
    if (number % 3 == 1) z = z * y;
    if (number % 3 == 2) z = maximum(z, y - z);
  }
  return z;
}

/// Kernels that the programs of earlier calls did not have.
int NextNumber() {
  static int number = 0;
  return ++number;
}

std::vector<double> KernelTimes(int first, int count) {
  Tensor x = ones({1024}), y = ones({1024});
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    auto before = metrics::MetricValue("cpu::KernelCompileTime");
    Sync(NumberedChain(first + i, x, y));
    auto after = metrics::MetricValue("cpu::KernelCompileTime");
    if (!after) continue;
    double total = after->total - (before ? before->total : 0);
    auto samples = static_cast<double>(after->samples - (before ? before->samples : 0));
    if (samples > 0) times.push_back(total / samples * 1e-9);
  }
  return times;
}

}  // namespace

void Start(int threads, bool wait_for_code) {
  config::Set("device", "cpu");
  config::Set("cpu.threads", std::to_string(threads));
  config::Set("cpu.wait_for_code", wait_for_code ? "true" : "false");
}

Side Make(const Row& row, const std::vector<Array>& inputs) {
  auto state = std::make_shared<State>();
  for (const Array& array : inputs) state->in.push_back(Upload(array, row));
  bool training = bench::IsTraining(row.work);
  if (training) {
    for (size_t i = 2; i < state->in.size(); ++i) state->in[i].requires_grad_();
  }
  Side side;
  side.trace = [state, &row, training] {
    if (training) {
      state->out = TrainStep(row, state->in);
    } else {
      state->out = Infer(row, state->in);
    }
  };
  side.run = [state, training] {
    if (training) {
      mark_step(/*wait=*/true);
    } else {
      Sync(state->out);
    }
  };
  side.result = [state, training] {
    std::vector<float> values = state->out.to(f32).to_vector<float>();
    if (training) {
      std::vector<float> weight = state->in[2].to_vector<float>();
      values.insert(values.end(), weight.begin(), weight.end());
    }
    return values;
  };
  return side;
}

std::string LatestText() {
  auto* executor = LazyGraphExecutor::Get();
  auto hash = executor->GetLatestHash();
  return hash ? executor->GetCachedText(*hash, "backend") : "";
}

std::string LatestSteps() {
  // "step 3: call gather reads ..." and further down "step 3: reference".
  std::map<std::string, std::string> calls;  // by step
  std::map<std::string, int> counts;
  int kernels = 0;
  std::istringstream lines(LatestText());
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("step ", 0) != 0) continue;
    std::istringstream words(line);
    std::string step, number, what, op;
    words >> step >> number >> what >> op;
    if (what == "call") {
      calls[number] = op;
    } else if (auto call = calls.find(number); call != calls.end()) {
      ++counts[call->second + " (" + line.substr(line.find(": ") + 2) + ")"];
    } else {
      ++kernels;
    }
  }
  std::string text = std::to_string(kernels) + " kernels";
  for (const auto& [call, count] : counts) text += ", " + std::to_string(count) + " " + call;
  return text;
}

std::vector<double> NewKernels(int count) {
  int first = NextNumber();
  for (int i = 1; i < count; ++i) NextNumber();
  return KernelTimes(first, count);
}

std::vector<double> CachedKernels(int count) {
  auto folder =
      std::filesystem::temp_directory_path() / ("hammock_cpu_bench_" + std::to_string(getpid()));
  config::Override cache("cache_dir", folder.string());
  int first = NextNumber();
  for (int i = 1; i < count; ++i) NextNumber();
  KernelTimes(first, count);
  LazyGraphExecutor::Get()->ClearComputationCache();
  int64_t before = metrics::CounterValue("cpu::CodeFromDisk").value_or(0);
  std::vector<double> times = KernelTimes(first, count);
  int64_t loaded = metrics::CounterValue("cpu::CodeFromDisk").value_or(0) - before;
  std::filesystem::remove_all(folder);
  if (loaded == 0) throw std::runtime_error("no kernel came from its cached object");
  return times;
}

ColdStart NewGraphs(int count) {
  Tensor x = ones({1024}), y = ones({1024});
  mark_step(true);
  ColdStart cold;
  for (int i = 0; i < count; ++i) {
    int number = NextNumber();
    std::vector<double> ends, steps;
    auto start = Clock::now();
    do {
      auto begin = Clock::now();
      Sync(NumberedChain(number, x, y));
      steps.push_back(SecondsSince(begin));
      ends.push_back(SecondsSince(start));
    } while (ends.back() < 0.15);
    cold.first_result.push_back(ends[0]);
    std::vector<double> late(steps.end() - static_cast<ptrdiff_t>(steps.size() / 4), steps.end());
    std::nth_element(late.begin(), late.begin() + static_cast<ptrdiff_t>(late.size() / 2),
                     late.end());
    double steady = late[late.size() / 2];
    // From here on three steps in a row are about as fast as the last ones.
    size_t at = 0;
    auto fast = [&](size_t step) { return steps[step] <= 1.3 * steady; };
    while (at + 3 < steps.size() && !(fast(at) && fast(at + 1) && fast(at + 2))) ++at;
    cold.full_speed.push_back(ends[at]);
  }
  return cold;
}

}  // namespace ours
