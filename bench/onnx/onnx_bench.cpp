// One model with its recorded inputs: load, first result, latency, peak memory, as JSON.
// bench/onnx/compare.py runs it beside ONNX Runtime.
//
//   onnx_bench FOLDER [BATCH [ARCHIVE]]   BATCH repeats the first dim of inputs whose first dim is
//                                         symbolic; ARCHIVE is what `hammock compile` made of the
//                                         model, and is loaded in its place

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "hammock/hammock.h"
#include "hammock/onnx.h"

namespace {

using namespace hammock;
using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 2) throw std::runtime_error("usage: onnx_bench FOLDER [BATCH [ARCHIVE]]");
  constexpr double kSpanMs = 1500;
  std::string folder = arguments[1];
  int64_t batch = count > 2 ? std::stoll(arguments[2]) : 1;
  NoGradGuard no_grad;
  auto start = Clock::now();
  ModulePtr net = count > 3 ? load_module(arguments[3]) : onnx::load(folder + "/model.onnx");
  const double load = Milliseconds(start);
  std::vector<Tensor> inputs;
  std::vector<onnx::DeclaredValue> declared = onnx::inputs(*net);
  onnx::LoadOptions options;
  bool is_fixed = true;
  for (size_t i = 0; i < declared.size(); ++i) {
    HostTensor host =
        onnx::read_tensor(folder + "/test_data_set_0/input_" + std::to_string(i) + ".pb");
    // An integer of one element chooses the computation, as a sample rate does: it is fixed.
    if (host.numel() == 1 && !IsFloat(host.dtype())) {
      options.fixed[declared[i].name] = host;
      continue;
    }
    Tensor x = from_host(host);
    bool free = !declared[i].dims.empty() && !declared[i].dims[0].size;
    is_fixed = is_fixed && !free;
    if (free && batch > 1) {
      Dims repeats = Dims::Filled(x.dim(), 1);
      repeats[0] = batch;
      x = x.repeat(repeats);
    }
    inputs.push_back(x);
  }
  sync_multi(inputs);
  if (!options.fixed.empty()) net = onnx::load(folder + "/model.onnx", options);
  auto forward = [&](const std::vector<Tensor>& given) {
    return PackTensors(net->run_method("forward", {given.begin(), given.end()})).tensors;
  };
  Replayed replayed(forward, {*net}, Location::current());
  std::vector<TensorArg> args(inputs.begin(), inputs.end());
  auto run = [&] {
    // A delegate runs what was compiled, and cannot be captured.
    for (const Tensor& y : count > 3 ? forward(inputs) : replayed.Call(args)) y.host();
  };
  start = Clock::now();
  run();
  double first = Milliseconds(start);
  config::Set("cpu.wait_for_code", "true");
  run();
  std::vector<double> times;
  for (auto begin = Clock::now(); times.size() < 5 || Milliseconds(begin) < kSpanMs;) {
    start = Clock::now();
    run();
    times.push_back(Milliseconds(start));
  }
  std::sort(times.begin(), times.end());
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  nlohmann::ordered_json json = {
      {"batch_is_fixed", is_fixed}, {"load_ms", load},
      {"first_ms", first},          {"median_ms", times[times.size() / 2]},
      {"min_ms", times[0]},         {"peak_mb", static_cast<double>(usage.ru_maxrss) / 1024}};
  std::cout << json.dump() << "\n";
} catch (const std::exception& error) {
  std::cerr << "onnx_bench: " << error.what() << "\n";
  return 1;
}
