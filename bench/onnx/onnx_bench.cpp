// One model with its recorded inputs: load, first result, latency, peak memory, as JSON.
// bench/onnx/compare.py runs it beside ONNX Runtime.
//
//   onnx_bench FOLDER [BATCH,... [ARCHIVE]]   a BATCH repeats the first dim of inputs whose first
//   dim
//                                             is symbolic; ARCHIVE is what `hammock compile` made
//                                             of the model, and is loaded in its place

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "hammock/hammock.h"
#include "hammock/onnx.h"

namespace {

using namespace hammock;
using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Inputs {
  std::vector<Tensor> values;
  std::vector<std::optional<int>> batch_dims;
  onnx::LoadOptions options;  // numbers that choose the computation, as a sample rate does
};

std::optional<int> BatchDim(const onnx::DeclaredValue& input, const Dims& recorded) {
  for (int i = 0; i < recorded.size(); ++i) {
    if (!input.dims[i].size && recorded[i] == 1) return i;
  }
  return std::nullopt;
}

Inputs ReadInputs(const std::string& folder, const Module& net) {
  Inputs inputs;
  std::vector<onnx::DeclaredValue> declared = onnx::inputs(net);
  for (size_t i = 0; i < declared.size(); ++i) {
    HostTensor host =
        onnx::read_tensor(folder + "/test_data_set_0/input_" + std::to_string(i) + ".pb");
    if (host.numel() == 1 && !IsFloat(host.dtype())) {
      inputs.options.fixed[declared[i].name] = host;
      continue;
    }
    inputs.values.push_back(from_host(host));
    inputs.batch_dims.push_back(BatchDim(declared[i], host.shape().sizes()));
  }
  return inputs;
}

std::vector<Tensor> Repeated(const Inputs& inputs, int64_t batch) {
  std::vector<Tensor> repeated = inputs.values;
  for (size_t i = 0; i < repeated.size(); ++i) {
    if (batch == 1 || !inputs.batch_dims[i]) continue;
    Dims repeats = Dims::Filled(repeated[i].dim(), 1);
    repeats[*inputs.batch_dims[i]] = batch;
    repeated[i] = repeated[i].repeat(repeats);
  }
  sync_multi(repeated);
  return repeated;
}

double LeastMilliseconds(const std::function<void()>& run) {
  constexpr double kSpanMs = 500;
  double least = std::numeric_limits<double>::infinity();
  int runs = 0;
  for (auto begin = Clock::now(); runs < 5 || Milliseconds(begin) < kSpanMs; ++runs) {
    auto start = Clock::now();
    run();
    least = std::min(least, Milliseconds(start));
  }
  return least;
}

double PeakMegabytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 2) throw std::runtime_error("usage: onnx_bench FOLDER [BATCH,... [ARCHIVE]]");
  const std::string folder = arguments[1];
  std::istringstream batches(count > 2 ? arguments[2] : "1");
  const bool is_compiled = count > 3;
  NoGradGuard no_grad;
  auto start = Clock::now();
  ModulePtr net = is_compiled ? load_module(arguments[3]) : onnx::load(folder + "/model.onnx");
  nlohmann::ordered_json json = {{"load_ms", Milliseconds(start)}};
  const Inputs inputs = ReadInputs(folder, *net);
  if (!inputs.options.fixed.empty()) net = onnx::load(folder + "/model.onnx", inputs.options);
  json["batch_is_fixed"] = std::ranges::none_of(
      inputs.batch_dims, [](const std::optional<int>& dim) { return dim.has_value(); });
  auto forward = [&](const std::vector<Tensor>& given) {
    return PackTensors(net->run_method("forward", {given.begin(), given.end()})).tensors;
  };
  for (std::string batch; std::getline(batches, batch, ',');) {
    std::vector<Tensor> given = Repeated(inputs, std::stoll(batch));
    std::vector<TensorArg> args(given.begin(), given.end());
    Replayed replayed(forward, {*net}, Location::current());
    auto run = [&] {
      // A delegate runs what was compiled, and cannot be captured.
      for (const Tensor& y : is_compiled ? forward(given) : replayed.Call(args)) y.host();
    };
    start = Clock::now();
    run();
    const double first = Milliseconds(start);
    config::Set("cpu.wait_for_code", "true");
    run();
    json["latency_ms"][batch] = LeastMilliseconds(run);
    if (json.contains("first_ms")) continue;
    json["first_ms"] = first;
    json["peak_mb"] = PeakMegabytes();
  }
  std::cout << json.dump() << "\n";
} catch (const std::exception& error) {
  std::cerr << "onnx_bench: " << error.what() << "\n";
  return 1;
}
