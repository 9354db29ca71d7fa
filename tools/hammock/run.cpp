// hammock run: a graph or a module on given inputs, or a repro file, which has its own.

#include <fmt/format.h>

#include <algorithm>
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

/// A result, or an item of one that is a list.
struct Output {
  std::string number;  ///< "1", "1.0"
  std::string name;    ///< in an ONNX file; may be empty
  Any value;

  std::string label() const { return number + (name.empty() ? "" : " '" + name + "'"); }
  std::string key() const { return name.empty() ? "output" + number : name; }
};

bool IsText(const Any& value) {
  if (!value.IsSequence()) return value.kind() == Any::Kind::kString;
  return !value.ToList().empty() && std::ranges::all_of(value.ToList(), IsText);
}

/// Tensors, texts and what is neither; other lists item by item.
void AddOutputs(const Output& all, std::vector<Output>& outputs) {
  auto add = [&](size_t i, const std::string& name, const Any& value) {
    AddOutputs({fmt::format("{}.{}", all.number, i), name, value}, outputs);
  };
  if (all.value.kind() == Any::Kind::kDict) {
    size_t i = 0;
    for (const auto& [key, value] : all.value.ToDict()) {
      add(i++, all.name.empty() ? key : all.name + "." + key, value);
    }
  } else if (all.value.IsSequence() && !IsText(all.value)) {
    const AnyList& items = all.value.ToList();
    for (size_t i = 0; i < items.size(); ++i) {
      add(i, all.name.empty() ? "" : fmt::format("{}.{}", all.name, i), items[i]);
    }
  } else {
    outputs.push_back(all);
  }
}

/// `names`: of an ONNX file's outputs, of which several are a tuple.
std::vector<Output> OutputsOf(const Any& result, const std::vector<std::string>& names) {
  std::vector<Output> outputs;
  if (names.size() == 1 || !result.IsSequence()) {
    AddOutputs({"0", names.empty() ? "" : names[0], result}, outputs);
    return outputs;
  }
  const AnyList& items = result.ToList();
  for (size_t i = 0; i < items.size(); ++i) {
    AddOutputs({std::to_string(i), i < names.size() ? names[i] : "", items[i]}, outputs);
  }
  return outputs;
}

/// Bytes that are no UTF-8 become the sign for that.
std::string Printed(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json TextsOf(const Any& value) {
  if (value.kind() == Any::Kind::kString) return value.ToStringRef();
  Json texts = Json::array();
  for (const Any& item : value.ToList()) texts.push_back(TextsOf(item));
  return texts;
}

Json ToJson(const Output& output) {
  Json json = Json::object();
  if (!output.name.empty()) json["name"] = output.name;
  if (output.value.IsTensor()) {
    json.update(ToJson(output.value.ToTensor().host()));
  } else if (IsText(output.value)) {
    json["strings"] = TextsOf(output.value);
  } else {
    json["type"] = output.value.type_name();
  }
  return json;
}

void Print(const Output& output) {
  if (!output.value.IsTensor()) {
    std::cout << fmt::format(
        "output {}: {}\n", output.label(),
        IsText(output.value) ? Printed(TextsOf(output.value)) : output.value.type_name());
    return;
  }
  const HostTensor tensor = output.value.ToTensor().host();
  Summary summary = Summarise(tensor);
  std::cout << fmt::format("output {}: {} {}", output.label(), tensor.shape().to_string(),
                           FirstValues(tensor));
  if (summary.finite > 1) {
    std::cout << fmt::format("  min {:.6g}, mean {:.6g}, max {:.6g}", summary.least,
                             summary.sum / static_cast<double>(summary.finite), summary.most);
  }
  if (summary.not_finite > 0) std::cout << fmt::format("  {} NaN or infinite", summary.not_finite);
  std::cout << "\n";
}

/// One array as FILE.npy, several as FILE.0.npy ... by their numbers; any number in
/// FILE.safetensors by their names. Texts are left out.
void Save(const std::string& path, std::vector<Output> outputs) {
  const bool several = outputs.size() > 1;
  std::erase_if(outputs, [](const Output& output) { return !output.value.IsTensor(); });
  std::filesystem::path file = path;
  if (file.extension() == ".safetensors") {
    io::NamedHostTensors named;
    for (const Output& output : outputs) {
      named.emplace_back(output.key(), output.value.ToTensor().host());
    }
    return io::WriteSafetensors(path, named);
  }
  if (file.extension() != ".npy") {
    throw ValueError(ErrorCode::kValue,
                     fmt::format("-o {}: it must end in .npy or .safetensors", path));
  }
  for (const Output& output : outputs) {
    std::filesystem::path one = file;
    if (several) one.replace_extension(fmt::format(".{}.npy", output.number));
    io::WriteNpy(one.string(), output.value.ToTensor().host());
  }
}

std::vector<Output> RunModel(const RunOptions& options, const Device& device) {
  Model model = LoadModel(options.model, Needs::kForward, options.onnx);
  model.module->to(device);
  std::vector<Tensor> inputs;
  for (const HostTensor& host :
       LoadInputs(model, {options.inputs, options.random, static_cast<uint64_t>(options.seed)})) {
    inputs.push_back(from_host(host, device));
  }
  manual_seed(static_cast<uint64_t>(options.seed));
  return OutputsOf(model.Call(inputs), model.results);
}

std::vector<Output> RunReproFile(const std::string& path, const Device& device) {
  std::vector<Tensor> results = RunRepro(path, device);
  return OutputsOf(AnyList(results.begin(), results.end()), {});
}

}  // namespace

int Run(const RunOptions& options) {
  Device device = options.device.empty() ? Device() : Device(options.device);
  SetDefaultDevice(device);
  bool repro = std::filesystem::path(options.model).extension() == ".repro";
  std::vector<Output> outputs =
      repro ? RunReproFile(options.model, device) : RunModel(options, device);
  std::vector<Tensor> tensors;
  for (const Output& output : outputs) {
    if (output.value.IsTensor()) tensors.push_back(output.value.ToTensor());
  }
  LazyGraphExecutor::Get()->GetTensors(tensors);  // at once; `host()` then finds the values
  if (!options.output.empty()) Save(options.output, outputs);
  if (options.json) {
    Json json = {{"device", device.to_string()}, {"outputs", Json::array()}};
    for (const Output& output : outputs) json["outputs"].push_back(ToJson(output));
    std::cout << Printed(json, 2) << "\n";
    return 0;
  }
  for (const Output& output : outputs) Print(output);
  return 0;
}

}  // namespace hammock::tool
