// depth_child MODE OPS BUDGET: a chain of OPS ops in one process, for tests that look at its stack
// and memory. In mode "trim" at most BUDGET nodes may be pending. Prints "ok" and the peak memory
// in MB.

#include <hammock/hammock.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

using namespace hammock;

namespace {

long PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

int Fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  return 1;
}

Tensor Chain(int64_t ops) {
  Tensor one = tensor({1.0}, std::nullopt, "reference");
  Tensor t = zeros({1}, f32, "reference");
  for (int64_t i = 0; i < ops; ++i) t = t + one;
  return t;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return Fail("usage: depth_child MODE OPS BUDGET");
  std::string mode = argv[1];
  int64_t ops = std::atoll(argv[2]);
  int64_t budget = std::atoll(argv[3]);
  config::Set("trim_graph_size", mode == "trim" ? argv[3] : "0");
  auto expected = static_cast<float>(ops);
  Tensor t = Chain(ops);
  LazyGraphExecutor& lazy = *LazyGraphExecutor::Get();
  if (mode == "free") {
    t = Tensor();
  } else if (mode == "dump") {
    std::string text = lazy.DumpTensors(std::vector<Tensor>{t});
    auto lines = std::count(text.begin(), text.end(), '\n');
    if (lines < ops) return Fail("the dump has " + std::to_string(lines) + " lines");
    lazy.GetGraphHash(std::vector<Tensor>{t});
    t = Tensor();
  } else if (mode == "step") {
    mark_step(true);
    if (t.item<float>() != expected) return Fail("wrong value");
  } else if (mode == "trim") {
    std::string text = lazy.DumpTensors(std::vector<Tensor>{t});
    auto lines = std::count(text.begin(), text.end(), '\n');
    if (lines > budget * 21 / 10)
      return Fail("after trims " + std::to_string(lines) + " lines are pending");
    if (t.item<float>() != expected) return Fail("wrong value");
  } else if (mode == "failed") {
    Tensor bad = gather(t, 0, full({1}, 9, i64, "reference"));
    for (int64_t i = 0; i < ops; ++i) bad = bad + t;
    try {
      bad.host();
      return Fail("no error");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kIndexOutOfRange) return Fail(error.what());
    }
    if (t.item<float>() != expected) return Fail("wrong value");
  } else if (mode == "views") {
    Tensor base = zeros({4}, f32, "reference");
    for (int64_t i = 0; i < ops; ++i) base.slice(0, i % 4, i % 4 + 1).add_(1.0f);
    if (base.sum().item<float>() != expected) return Fail("wrong sum");
  } else if (mode == "run") {
    if (t.item<float>() != expected) return Fail("wrong value");
  } else {
    return Fail("unknown mode");
  }
  std::printf("ok %ld\n", PeakMegabytes());
  return 0;
}
