// Trains a small classifier, then shows what the runtime did.
#include <hammock/hammock.h>
#include <hammock/lazy/backend_interface.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

using namespace hammock;

namespace {

constexpr int64_t kClasses = 3, kPoints = 1500, kHidden = 64, kBatch = 128, kEpochs = 60;

metrics::Metric& TraceTime() {
  static metrics::Metric& time = metrics::GetMetric("demo.TraceTime", metrics::Kind::kTime);
  return time;
}

struct Data {
  Tensor x, y;
};

/// Three arms of a spiral, mixed.
Data MakeSpirals() {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t i = 0; i < kPoints; ++i) {
    int64_t arm = i % kClasses;
    float radius = 0.1f + 0.9f * static_cast<float>(i * 37 % kPoints) / kPoints;
    float angle = 2.1f * static_cast<float>(arm) + 3.5f * radius;
    x.insert(x.end(), {radius * std::cos(angle), radius * std::sin(angle)});
    y.push_back(arm);
  }
  return {tensor(x, {kPoints, 2}), tensor(y)};
}

struct Model {
  Tensor w1 = randn({2, kHidden}), b1 = zeros({kHidden});
  Tensor w2 = randn({kHidden, kClasses}) * 0.2, b2 = zeros({kClasses});

  Model() {
    for (Tensor* parameter : Parameters()) parameter->requires_grad_();
  }
  std::vector<Tensor*> Parameters() { return {&w1, &b1, &w2, &b2}; }
  Tensor Logits(const Tensor& x) const { return matmul(relu(matmul(x, w1) + b1), w2) + b2; }
};

/// One step of gradient descent; returns the loss.
Tensor Train(Model& m, const Tensor& x, const Tensor& y, double rate) {
  Tensor loss = cross_entropy(m.Logits(x), y);
  loss.backward();
  NoGradGuard no_grad;
  for (Tensor* parameter : m.Parameters()) {
    *parameter -= parameter->grad() * rate;
    parameter->set_grad({});
  }
  return loss.detach();
}

void ShowProgress(int64_t epoch, double loss) {
  bool terminal = isatty(STDOUT_FILENO) != 0;
  bool last = epoch == kEpochs;
  if (!terminal && !last && epoch % 10 != 0) return;
  std::printf("%sepoch %2ld of %ld  loss %.4f%s", terminal ? "\r" : "", static_cast<long>(epoch),
              static_cast<long>(kEpochs), loss, terminal && !last ? "" : "\n");
  std::fflush(stdout);
}

double Accuracy(const Model& model, const Data& data) {
  return (argmax(model.Logits(data.x), 1) == data.y).to(f32).mean().item<double>();
}

std::string Total(const char* metric) {
  auto data = metrics::MetricValue(metric);
  return data ? metrics::Repr(data->kind, data->total) : "none";
}

int64_t Fallbacks() {
  int64_t count = 0;
  for (const std::string& name : metrics::CounterNames()) {
    if (name.starts_with("fallback::")) count += metrics::CounterValue(name).value_or(0);
  }
  return count;
}

void ShowWhatHappened() {
  LazyGraphExecutor& executor = *LazyGraphExecutor::Get();
  CacheStats cache = executor.GetCacheStats();
  Device device;
  lazy::MemoryInfo memory = device.backend().GetMemoryInfo(device.backend_device());
  std::printf("\nWhat happened on %s\n", device.to_string().c_str());
  std::printf("  tensors recorded   %ld\n",
              static_cast<long>(metrics::CounterValue("CreateLtcTensor").value_or(0)));
  std::printf("  graphs compiled    %ld\n", static_cast<long>(cache.misses));
  std::printf("  found in the cache %ld times\n", static_cast<long>(cache.hits));
  std::printf("  fallbacks          %ld\n", static_cast<long>(Fallbacks()));
  std::printf("  peak memory        %s\n",
              metrics::Repr(metrics::Kind::kBytes, static_cast<double>(memory.peak)).c_str());
  std::printf("  time tracing       %s\n", Total("demo.TraceTime").c_str());
  std::printf("  time compiling     %s\n", Total("CompileTime").c_str());
  std::printf("  time running       %s\n", Total("ExecuteTime").c_str());
  std::printf("\nWhy each graph was compiled\n");
  for (const CompileMiss& miss : executor.GetMisses()) {
    if (miss.number > 6) {
      std::printf("  and so on\n");
      break;
    }
    std::printf("  %2ld. %ld nodes, by %s at %s\n      %s: %s\n", static_cast<long>(miss.number),
                static_cast<long>(miss.nodes), miss.trigger.c_str(), miss.where.c_str(),
                miss.kind.c_str(), miss.detail.c_str());
  }
}

}  // namespace

int main() {
  manual_seed(1);
  Data data = MakeSpirals();
  Model model;
  for (int64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    double rate = 1.0 / (1.0 + 0.02 * static_cast<double>(epoch));  // new each time, compiled once
    Tensor loss;
    for (int64_t start = 0; start < kPoints; start += kBatch) {
      step([&] {
        metrics::ScopedTimer timer(TraceTime());
        Tensor x = data.x.slice(0, start, start + kBatch),
               y = data.y.slice(0, start, start + kBatch);
        loss = Train(model, x, y, rate);
      });
    }
    ShowProgress(epoch, loss.item<double>());
  }
  double accuracy = Accuracy(model, data);
  std::printf("%.1f%% of %ld points are in the right arm\n", 100 * accuracy,
              static_cast<long>(kPoints));
  ShowWhatHappened();
  std::printf(
      "\nTry next\n"
      "  HAMMOCK_EXPLAIN_MISSES=1 build/examples/demo    each compilation explained as it happens\n"
      "  HAMMOCK_EAGER=1 build/examples/demo             op by op, with the same result\n"
      "  docs/backend-guide.md                           write a device of your own\n");
  return accuracy > 0.9 ? 0 : 1;
}
