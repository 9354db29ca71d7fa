// hammock bench: how long a graph takes, on several devices side by side, and where the time goes.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>

#include "commands.h"
#include "hammock/hammock.h"
#include "model_file.h"
#include "profile_reader.h"
#include "table.h"

namespace hammock::tool {

namespace {

using Clock = std::chrono::steady_clock;

struct KernelRow {
  std::string name, kind;
  double least_ms = 0;
  double bytes = 0, flops = 0;
};

struct Result {
  std::string device;
  double first_ms = 0;  ///< trace, compile and run
  double least_ms = 0, median_ms = 0;
  int runs = 0;
  std::vector<KernelRow> kernels;

  double bytes() const;
  double flops() const;
};

double Result::bytes() const {
  double sum = 0;
  for (const KernelRow& kernel : kernels) sum += kernel.bytes;
  return sum;
}
double Result::flops() const {
  double sum = 0;
  for (const KernelRow& kernel : kernels) sum += kernel.flops;
  return sum;
}

double Milliseconds(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

using RunFn = std::function<void()>;

/// Runs a model once and waits. Its graph is replayed; a delegate is called.
RunFn RunOf(const Model& model, const std::vector<Tensor>& inputs) {
  if (model.delegated) return [&] { sync_multi(model(inputs)); };
  Replayed replayed([&](const std::vector<Tensor>& given) { return model(given); }, {*model.module},
                    Location::current());
  std::vector<TensorArg> args(inputs.begin(), inputs.end());
  return [replayed, args] { sync_multi(replayed.Call(args)); };
}

/// Runs under a profile in a file of its own and takes the kernels' times from it.
std::vector<KernelRow> TimeKernels(const RunFn& run) {
  constexpr int kRuns = 10;
  std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("hammock_bench_{}.json", getpid()))
          .string();
  if (profile::IsOn()) return {};  // the user's own
  profile::Start(path);
  for (int i = 0; i < kRuns; ++i) run();
  profile::Stop();
  Profile profile = ParseProfile(ReadFile(path), path);
  std::filesystem::remove(path);
  std::vector<KernelRow> rows;
  auto times = TimesOfKernels(profile);
  for (const Json& written : profile.graphs) {
    const Json& kernels = written["kernels"];
    for (size_t i = 0; i < kernels.size(); ++i) {
      auto found = times.find({written["graph"].get<int64_t>(), static_cast<int64_t>(i)});
      if (found == times.end()) continue;
      rows.push_back({kernels[i].value("name", ""), kernels[i].value("kind", ""),
                      found->second.least / 1000, kernels[i].value("bytes", 0.0),
                      kernels[i].value("flops", 0.0)});
    }
  }
  return rows;
}

Result Measure(const Model& model, const std::vector<HostTensor>& hosts, const Device& device,
               int runs) {
  constexpr double kSpanMs = 1000;
  constexpr int kMostRuns = 10000;
  model.module->to(device);
  std::vector<Tensor> inputs;
  for (const HostTensor& host : hosts) inputs.push_back(from_host(host, device));
  sync_multi(inputs);
  Result result{device.to_string(), 0, 0, 0, 0, {}};
  auto start = Clock::now();
  RunFn run = RunOf(model, inputs);
  run();
  result.first_ms = Milliseconds(start);
  run();
  std::vector<double> times;
  for (auto begin = Clock::now(); runs > 0
                                      ? static_cast<int>(times.size()) < runs
                                      : static_cast<int>(times.size()) < kMostRuns &&
                                            (times.size() < 3 || Milliseconds(begin) < kSpanMs);) {
    auto one = Clock::now();
    run();
    times.push_back(Milliseconds(one));
  }
  std::sort(times.begin(), times.end());
  result.runs = static_cast<int>(times.size());
  result.least_ms = times.front();
  result.median_ms = times[times.size() / 2];
  result.kernels = TimeKernels(run);
  return result;
}

std::string Rate(double amount, double ms, const char* unit) {
  if (amount <= 0 || ms <= 0) return "";
  return fmt::format("{:.2f} {}", amount / ms / 1e6, unit);
}

void Print(const std::vector<Result>& results) {
  Table table({"device", "median ms", "min ms", "first ms", "runs", "memory", "arithmetic"},
              {1, 2, 3, 4, 5, 6});
  for (const Result& r : results) {
    table.Add({r.device, fmt::format("{:.4f}", r.median_ms), fmt::format("{:.4f}", r.least_ms),
               fmt::format("{:.2f}", r.first_ms), std::to_string(r.runs),
               Rate(r.bytes(), r.least_ms, "GB/s"), Rate(r.flops(), r.least_ms, "GFLOP/s")});
  }
  std::cout << table.ToText();
  for (const Result& r : results) {
    if (r.kernels.empty()) continue;
    double sum = 0;
    for (const KernelRow& kernel : r.kernels) sum += kernel.least_ms;
    std::cout << fmt::format("\nkernels of {}, each at its fastest\n", r.device);
    Table kernels({"kernel", "by", "ms", "share", "memory", "arithmetic"}, {2, 3, 4, 5});
    for (const KernelRow& k : r.kernels) {
      kernels.Add({k.name, k.kind, fmt::format("{:.4f}", k.least_ms),
                   fmt::format("{:.0f}%", sum > 0 ? 100 * k.least_ms / sum : 0),
                   Rate(k.bytes, k.least_ms, "GB/s"), Rate(k.flops, k.least_ms, "GFLOP/s")});
    }
    std::cout << kernels.ToText();
  }
}

Json ToJson(const Result& r) {
  Json kernels = Json::array();
  for (const KernelRow& k : r.kernels) {
    kernels.push_back({{"name", k.name},
                       {"kind", k.kind},
                       {"min_ms", k.least_ms},
                       {"bytes", k.bytes},
                       {"flops", k.flops}});
  }
  return {{"device", r.device},     {"median_ms", r.median_ms}, {"min_ms", r.least_ms},
          {"first_ms", r.first_ms}, {"runs", r.runs},           {"kernels", std::move(kernels)}};
}

}  // namespace

int Bench(const BenchOptions& options) {
  std::vector<std::string> names = options.devices;
  if (names.empty()) names.push_back(Device().to_string());
  Model model = LoadModel(options.model, IsOnnx(options.model) ? Needs::kForward : Needs::kGraph,
                          options.onnx);
  config::Override code("cpu.wait_for_code", "true");
  std::vector<Result> results;
  for (const std::string& name : names) {
    Device device(name);
    SetDefaultDevice(device);
    std::vector<HostTensor> inputs =
        LoadInputs(model, {options.inputs, /*random=*/true, /*seed=*/0});
    results.push_back(Measure(model, inputs, device, options.runs));
  }
  if (!options.json) {
    Print(results);
    return 0;
  }
  Json json = Json::array();
  for (const Result& result : results) json.push_back(ToJson(result));
  std::cout << json.dump(2) << "\n";
  return 0;
}

}  // namespace hammock::tool
