// hammock-onnx-suite: models with recorded inputs and outputs, as ONNX's own test data has them, on
// any device.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "gradients.h"
#include "hammock/hammock.h"
#include "hammock/onnx.h"

namespace hammock::onnx_suite {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage = R"(usage: hammock-onnx-suite DIR [options]
Runs every folder below DIR that has a model.onnx on its test_data_set_*/input_N.pb and compares the
outputs. Exit status: 0 if all pass but the known ones and the list holds, 1 if not, 2 for a wrong
command line.

  --device NAME    run on this device instead of the default one
  --case TEXT      only cases whose name has this in it
  --known FILE     cases that fail, "NAME: REASON" a line; one that passes or does not exist is an
                   error
  --every N        only one case in N, by name
  --part           DIR is a part of the suite: the list may have cases that it lacks
  --rtol X, --atol X   tolerances of floats; by default 1e-3 and 1e-5
  --traced         make `forward` a graph first, where that is possible, and run the graph
  --save DIR       make `forward` a graph, write it as DIR/NAME.onnx, and run what was read back;
                   integers of one element are fixed, since they may choose the computation
  --free           with --save: first dims that have names stay free. The graph is traced at twice
                   their sizes and run at the recorded ones, and at three times those it must give
                   what the model gives
  --gradients      instead of outputs compare the gradient of a sum of all outputs, by parameters and
                   inputs of floats, with the slopes that calls of the model show along it and
                   along random directions; none is 0 where the sum depends on the tensor
  --directions N   with --gradients: so many random directions, by default 1
  --verbose        print every case
  --json FILE      write the results
)";

struct UsageError {
  std::string text;
};

struct CommandLine {
  std::string dir, device, only, json, save;
  std::vector<std::string> known;
  double rtol = 1e-3, atol = 1e-5;
  size_t every = 1;
  int directions = 1;
  bool verbose = false, traced = false, part = false, gradients = false, free = false;
};

CommandLine ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  size_t next = 0;
  auto value = [&](const std::string& option) {
    if (next == arguments.size()) throw UsageError{option + " needs a value"};
    return arguments[next++];
  };
  while (next < arguments.size()) {
    std::string option = arguments[next++];
    if (option == "--device") {
      line.device = value(option);
    } else if (option == "--case") {
      line.only = value(option);
    } else if (option == "--every") {
      line.every = std::max(std::stoul(value(option)), 1ul);
    } else if (option == "--directions") {
      line.directions = std::stoi(value(option));
    } else if (option == "--known") {
      line.known.push_back(value(option));
    } else if (option == "--json") {
      line.json = value(option);
    } else if (option == "--rtol") {
      line.rtol = std::stod(value(option));
    } else if (option == "--atol") {
      line.atol = std::stod(value(option));
    } else if (option == "--verbose") {
      line.verbose = true;
    } else if (option == "--save") {
      line.save = value(option);
    } else if (option == "--part") {
      line.part = true;
    } else if (option == "--traced") {
      line.traced = true;
    } else if (option == "--free") {
      line.free = true;
    } else if (option == "--gradients") {
      line.gradients = true;
    } else if (option.starts_with("-") || !line.dir.empty()) {
      throw UsageError{"unknown argument " + option};
    } else {
      line.dir = option;
    }
  }
  if (line.dir.empty()) throw UsageError{"DIR is missing"};
  if (line.free && line.save.empty()) throw UsageError{"--free needs --save"};
  return line;
}

/// The first difference; empty if there is none.
std::string Compare(const Any& actual, const Any& expected, const CommandLine& line);

std::string CompareTensors(const HostTensor& actual, const HostTensor& expected,
                           const CommandLine& line) {
  if (actual.shape() != expected.shape()) {
    return fmt::format("{} instead of {}", actual.shape().to_string(),
                       expected.shape().to_string());
  }
  bool floats = IsFloat(expected.dtype());
  double rtol = line.rtol, atol = line.atol;
  if (floats && InfoOf(expected.dtype()).bits == 16) {  // a step of the dtype or two
    rtol = std::max(rtol, 2 * InfoOf(expected.dtype()).epsilon);
    atol = std::max(atol, InfoOf(expected.dtype()).epsilon);
  }
  for (int64_t i = 0; i < expected.numel(); ++i) {
    if (!floats) {
      if (actual.at(i) == expected.at(i)) continue;
      return fmt::format("element {} is {}, expected {}", i, actual.at(i).to_string(),
                         expected.at(i).to_string());
    }
    double a = actual.at(i).ToDouble(), e = expected.at(i).ToDouble();
    bool same =
        (std::isnan(a) && std::isnan(e)) || a == e || std::abs(a - e) <= atol + rtol * std::abs(e);
    if (!same) return fmt::format("element {} is {}, expected {}", i, a, e);
  }
  return "";
}

std::string Compare(const Any& actual, const Any& expected, const CommandLine& line) {
  if (actual.IsTensor() && expected.IsTensor()) {
    return CompareTensors(actual.ToTensor().host(), expected.ToTensor().host(), line);
  }
  if (actual.IsSequence() && expected.IsSequence()) {
    const AnyList &a = actual.ToList(), &e = expected.ToList();
    if (a.size() != e.size()) return fmt::format("{} items instead of {}", a.size(), e.size());
    for (size_t i = 0; i < a.size(); ++i) {
      std::string difference = Compare(a[i], e[i], line);
      if (!difference.empty()) return fmt::format("item {}: {}", i, difference);
    }
    return "";
  }
  if (actual.kind() != expected.kind()) {
    return fmt::format("a {} instead of a {}", actual.type_name(), expected.type_name());
  }
  if (actual.kind() == Any::Kind::kString && actual.ToStringRef() != expected.ToStringRef()) {
    return fmt::format("'{}' instead of '{}'", actual.ToStringRef(), expected.ToStringRef());
  }
  return "";
}

fs::path InputFile(const fs::path& folder, size_t i) {
  return folder / fmt::format("input_{}.pb", i);
}

/// Inputs whose first dim has a name: a batch, mostly.
std::vector<FreeDim> FreeDimsOf(const Module& module) {
  std::vector<FreeDim> free;
  for (const onnx::DeclaredValue& input : onnx::inputs(module)) {
    if (input.dims.empty() || input.dims[0].name.empty()) continue;
    free.push_back({input.argument, 0, input.dims[0].name});
  }
  return free;
}

/// The inputs with their free dims `times` as large: the elements repeat.
std::vector<Any> Tiled(const Module& module, std::vector<Any> inputs, int64_t times) {
  std::vector<onnx::DeclaredValue> declared = onnx::inputs(module);
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool free = !declared[i].dims.empty() && !declared[i].dims[0].name.empty();
    if (!free || !inputs[i].IsTensor()) continue;
    Dims repeats = Dims::Filled(inputs[i].ToTensor().dim(), 1);
    repeats[0] = times;
    inputs[i] = inputs[i].ToTensor().repeat(repeats);
  }
  return inputs;
}

AnyList ResultsOf(Module& module, const std::vector<Any>& inputs) {
  Any result = module.run_method("forward", inputs);
  return onnx::outputs(module).size() == 1 ? AnyList{result} : result.ToList();
}

/// Writes `forward`, which becomes a graph, and reads it back.
ModulePtr WrittenAndRead(Module& module, const std::vector<Any>& inputs, const fs::path& folder,
                         const CommandLine& line) {
  const std::string name = folder.filename().string();
  const std::string path = (fs::path(line.save) / (name + ".onnx")).string();
  if (!line.free) {
    onnx::trace(module, inputs, {.free = false});
    onnx::save(module, path);
    return onnx::load(path);
  }
  const std::vector<Any> large = Tiled(module, inputs, 3);
  const AnyList expected = ResultsOf(module, large);
  module.trace("forward", Tiled(module, inputs, 2), {.free_dims = FreeDimsOf(module)});
  onnx::save(module, path);
  ModulePtr again = onnx::load(path);
  const AnyList actual = ResultsOf(*again, large);
  for (size_t i = 0; i < expected.size(); ++i) {
    std::string difference = Compare(actual[i], expected[i], line);
    if (difference.empty()) continue;
    throw std::runtime_error(fmt::format("at three times the sizes: output {} ('{}'): {}", i,
                                         onnx::outputs(module)[i].name, difference));
  }
  return again;
}

std::string RunDataSet(Module& module, const fs::path& folder, const CommandLine& line) {
  Device device;
  std::vector<Any> inputs;
  std::vector<onnx::DeclaredValue> declared = onnx::inputs(module);
  // Inputs that were fixed are no inputs any more, but have their files.
  std::vector<onnx::DeclaredValue> files = declared;
  if (!line.save.empty()) {
    files = onnx::inputs(*onnx::load((folder.parent_path() / "model.onnx").string()));
  }
  for (size_t i = 0, file = 0; i < declared.size(); ++i, ++file) {
    while (files.at(file).name != declared[i].name) ++file;
    fs::path path = InputFile(folder, file);
    inputs.push_back(fs::exists(path) ? onnx::read_value(path.string(), module, i, device) : Any());
  }
  if (line.gradients) return CheckGradients(module, inputs, line.directions);
  if (line.traced) {
    try {
      onnx::trace(module, inputs, {.free = false});
    } catch (const NotSupported&) {
    } catch (const ValueError&) {
    }
  }
  ModulePtr again;
  if (!line.save.empty()) again = WrittenAndRead(module, inputs, folder.parent_path(), line);
  AnyList results = ResultsOf(again ? *again : module, inputs);
  size_t outputs = onnx::outputs(module).size();
  for (size_t i = 0; i < outputs; ++i) {
    fs::path file = folder / fmt::format("output_{}.pb", i);
    if (!fs::exists(file)) continue;
    Any expected = onnx::read_output(file.string(), module, i, device);
    std::string difference = Compare(results[i], expected, line);
    if (!difference.empty()) {
      return fmt::format("output {} ('{}'): {}", i, onnx::outputs(module)[i].name, difference);
    }
  }
  return "";
}

/// The model, with integers of one element fixed where a graph is made of it.
ModulePtr LoadCase(const fs::path& folder, const CommandLine& line) {
  std::string path = (folder / "model.onnx").string();
  ModulePtr module = onnx::load(path);
  if (line.save.empty()) return module;
  onnx::LoadOptions options;
  std::vector<onnx::DeclaredValue> declared = onnx::inputs(*module);
  for (size_t i = 0; i < declared.size(); ++i) {
    fs::path file = InputFile(folder / "test_data_set_0", i);
    bool number = declared[i].dtype && !IsFloat(*declared[i].dtype) && declared[i].ranked &&
                  declared[i].dims.empty();
    if (!number || !fs::exists(file)) continue;
    options.fixed[declared[i].name] = onnx::read_tensor(file.string());
  }
  return options.fixed.empty() ? module : onnx::load(path, options);
}

/// Why the case fails; empty: it passes.
std::string RunCase(const fs::path& folder, const CommandLine& line) {
  try {
    NoGradGuard no_grad;
    ModulePtr module = LoadCase(folder, line);
    std::vector<fs::path> sets;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with("test_data_set_")) {
        sets.push_back(entry.path());
      }
    }
    std::sort(sets.begin(), sets.end());
    for (const fs::path& set : sets) {
      std::string difference = RunDataSet(*module, set, line);
      if (!difference.empty()) return set.filename().string() + ": " + difference;
    }
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::map<std::string, std::string> ReadKnown(const std::vector<std::string>& files) {
  std::map<std::string, std::string> known;
  for (const std::string& path : files) {
    std::ifstream file(path);
    if (!file) throw UsageError{"cannot read " + path};
    for (std::string text; std::getline(file, text);) {
      if (text.empty() || text[0] == '#') continue;
      size_t colon = text.find(':');
      if (colon == std::string::npos) throw UsageError{path + ": no reason in: " + text};
      known[text.substr(0, colon)] = text.substr(colon + 1);
    }
  }
  return known;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

int Main(const CommandLine& line) {
  if (std::string reason = onnx::why_absent(); !reason.empty()) throw UsageError{reason};
  if (!line.device.empty()) SetDefaultDevice(Device(line.device));
  std::map<std::string, std::string> known = ReadKnown(line.known);
  std::vector<fs::path> cases;
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(line.dir)) {
    if (entry.path().filename() == "model.onnx") cases.push_back(entry.path().parent_path());
  }
  std::sort(cases.begin(), cases.end());
  int passed = 0, expected_to_fail = 0, run = 0;
  std::string complaints;
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const fs::path& folder : cases) {
    std::string name = folder.filename().string();
    names.insert(name);
    if (name.find(line.only) == std::string::npos || names.size() % line.every != 0) continue;
    ++run;
    auto start = std::chrono::steady_clock::now();
    std::string failure = RunCase(folder, line);
    double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    passed += failure.empty();
    results.push_back({{"case", name}, {"pass", failure.empty()}, {"why", failure}, {"ms", ms}});
    if (failure.empty() && known.contains(name)) {
      complaints += fmt::format("{} passes: take it off the list of known failures\n", name);
    } else if (!failure.empty() && known.contains(name)) {
      ++expected_to_fail;
      if (line.verbose) fmt::print("known {}:{}\n", name, known.at(name));
    } else if (!failure.empty()) {
      complaints += fmt::format("FAIL {}: {}\n", name, line.verbose ? failure : FirstLine(failure));
    } else if (line.verbose) {
      fmt::print("pass {} ({:.0f} ms)\n", name, ms);
    }
  }
  for (const auto& [name, reason] : known) {
    if (line.only.empty() && !line.part && line.every == 1 && !names.contains(name)) {
      complaints += fmt::format("{} is no case: take it off the list of known failures\n", name);
    }
  }
  if (!line.json.empty()) std::ofstream(line.json) << results.dump(1) << '\n';
  fmt::print("{}{} of {} cases pass ({:.1f}%), {} fail as known, on {}\n", complaints, passed, run,
             run == 0 ? 0.0 : 100.0 * passed / run, expected_to_fail, Device().to_string());
  return complaints.empty() && run > 0 ? 0 : 1;
}

}  // namespace
}  // namespace hammock::onnx_suite

int main(int count, char** arguments) {
  using namespace hammock::onnx_suite;
  try {
    return Main(ParseCommandLine({arguments + 1, arguments + count}));
  } catch (const UsageError& error) {
    std::cerr << "hammock-onnx-suite: " << error.text << "\n" << kUsage;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "hammock-onnx-suite: " << error.what() << "\n";
    return 2;
  }
}
