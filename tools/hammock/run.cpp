// hammock run: a graph or a module on given inputs, or a repro file, which has its own.

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "hammock/error.h"
#include "hammock/hammock.h"
#include "hammock/io.h"
#include "hammock/repro.h"
#include "model_file.h"

namespace hammock::tool {

namespace {

using Json = nlohmann::ordered_json;

struct Summary {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0;
  int64_t finite = 0;
  int64_t not_finite = 0;
};

Summary Summarise(const HostTensor& tensor) {
  Summary summary;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    double value = tensor.at(i).ToDouble();
    if (!std::isfinite(value)) {
      ++summary.not_finite;
      continue;
    }
    ++summary.finite;
    summary.sum += value;
    summary.least = std::min(summary.least, value);
    summary.most = std::max(summary.most, value);
  }
  return summary;
}

std::string FirstValues(const HostTensor& tensor) {
  constexpr int64_t kShown = 6;
  std::string text = "[";
  for (int64_t i = 0; i < std::min(tensor.numel(), kShown); ++i) {
    text += fmt::format("{}{:.6g}", i == 0 ? "" : ", ", tensor.at(i).ToDouble());
  }
  return text + (tensor.numel() > kShown ? ", ...]" : "]");
}

Json ToJson(const HostTensor& tensor) {
  Summary summary = Summarise(tensor);
  Json json = {{"dtype", NameOf(tensor.dtype())}, {"sizes", tensor.shape().sizes().vec()}};
  if (summary.finite > 0) {
    json["min"] = summary.least;
    json["max"] = summary.most;
    json["mean"] = summary.sum / static_cast<double>(summary.finite);
  }
  json["not_finite"] = summary.not_finite;
  return json;
}

void Print(size_t i, const HostTensor& tensor) {
  Summary summary = Summarise(tensor);
  std::cout << fmt::format("output {}: {} {}", i, tensor.shape().to_string(), FirstValues(tensor));
  if (summary.finite > 1) {
    std::cout << fmt::format("  min {:.6g}, mean {:.6g}, max {:.6g}", summary.least,
                             summary.sum / static_cast<double>(summary.finite), summary.most);
  }
  if (summary.not_finite > 0) std::cout << fmt::format("  {} NaN or infinite", summary.not_finite);
  std::cout << "\n";
}

/// One array as FILE.npy, several as FILE.0.npy ...; any number in FILE.safetensors.
void Save(const std::string& path, const std::vector<HostTensor>& outputs) {
  std::filesystem::path file = path;
  if (file.extension() == ".safetensors") {
    io::NamedHostTensors named;
    for (size_t i = 0; i < outputs.size(); ++i) {
      named.emplace_back("output" + std::to_string(i), outputs[i]);
    }
    return io::WriteSafetensors(path, named);
  }
  if (file.extension() != ".npy") {
    throw ValueError(ErrorCode::kValue,
                     fmt::format("-o {}: it must end in .npy or .safetensors", path));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::filesystem::path one = file;
    if (outputs.size() > 1) one.replace_extension(fmt::format(".{}.npy", i));
    io::WriteNpy(one.string(), outputs[i]);
  }
}

std::vector<Tensor> RunModel(const RunOptions& options, const Device& device) {
  Model model = LoadModel(options.model, Needs::kForward, ParseDims(options.dims));
  model.module->to(device);
  std::vector<Tensor> inputs;
  for (const HostTensor& host :
       LoadInputs(model, {options.inputs, options.random, static_cast<uint64_t>(options.seed)})) {
    inputs.push_back(from_host(host, device));
  }
  manual_seed(static_cast<uint64_t>(options.seed));
  return model(inputs);
}

}  // namespace

int Run(const RunOptions& options) {
  Device device = options.device.empty() ? Device() : Device(options.device);
  SetDefaultDevice(device);
  bool repro = std::filesystem::path(options.model).extension() == ".repro";
  std::vector<HostTensor> outputs = LazyGraphExecutor::Get()->GetTensors(
      repro ? RunRepro(options.model, device) : RunModel(options, device));
  if (!options.output.empty()) Save(options.output, outputs);
  if (options.json) {
    Json json = {{"device", device.to_string()}, {"outputs", Json::array()}};
    for (const HostTensor& output : outputs) json["outputs"].push_back(ToJson(output));
    std::cout << json.dump(2) << "\n";
    return 0;
  }
  for (size_t i = 0; i < outputs.size(); ++i) Print(i, outputs[i]);
  return 0;
}

}  // namespace hammock::tool
