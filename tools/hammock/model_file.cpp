#include "model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "hammock/autograd.h"
#include "hammock/error.h"
#include "hammock/io.h"
#include "hammock/onnx.h"

namespace hammock::tool {

namespace {

[[noreturn]] void Fail(const std::string& message) { throw ValueError(ErrorCode::kValue, message); }

/// "forward(Tensor x0, Tensor x1) -> (Tensor, Tensor)" of a graph.
std::string SchemaOf(const Graph& graph) {
  std::string schema = "forward(";
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    schema += (i == 0 ? "Tensor x" : ", Tensor x") + std::to_string(i);
  }
  schema += ") -> ";
  if (graph.outputs().size() == 1) return schema + "Tensor";
  schema += "(";
  for (size_t i = 0; i < graph.outputs().size(); ++i) schema += i == 0 ? "Tensor" : ", Tensor";
  return schema + ")";
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) Fail(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  return text.str();
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) Fail(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
}

bool IsOnnx(const std::string& path) { return std::filesystem::path(path).extension() == ".onnx"; }

DimSizes ParseDims(const std::vector<std::string>& texts) {
  DimSizes sizes;
  for (const std::string& text : texts) {
    size_t equals = text.rfind('=');
    int64_t size = 0;
    const char* end = text.data() + text.size();
    bool good = equals != std::string::npos &&
                std::from_chars(text.data() + equals + 1, end, size).ptr == end && size > 0;
    if (!good) Fail(fmt::format("--dim {}: it must be NAME=SIZE", text));
    sizes[text.substr(0, equals)] = size;
  }
  return sizes;
}

void TraceFree(const std::string& path, Module& module, const DimSizes& dims) {
  if (IsOnnx(path)) onnx::trace(module, {.dims = dims});
}

namespace {

HostTensor ReadTensor(const std::string& path) {
  return std::filesystem::path(path).extension() == ".pb" ? onnx::read_tensor(path)
                                                          : io::ReadNpy(path);
}

/// A number for each element of an input, of size 1 where the file leaves it open, or a file.
HostTensor FixedValue(const onnx::DeclaredValue& input, const std::string& text) {
  const char* end = text.data() + text.size();
  int64_t whole = 0;
  double number = 0;
  bool is_whole = std::from_chars(text.data(), end, whole).ptr == end;
  if (!is_whole && std::from_chars(text.data(), end, number).ptr != end) return ReadTensor(text);
  if (!input.dtype) Fail(fmt::format("--fix {}: it is no tensor of numbers", input.name));
  Dims sizes;
  for (const onnx::DeclaredDim& dim : input.dims) sizes.push_back(dim.size.value_or(1));
  HostTensor tensor(Shape(*input.dtype, sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.set(i, (is_whole ? Scalar(whole) : Scalar(number)).To(*input.dtype));
  }
  return tensor;
}

ModulePtr LoadOnnx(const std::string& path, const std::vector<std::string>& fixed) {
  ModulePtr module = onnx::load(path);
  if (fixed.empty()) return module;
  onnx::LoadOptions options;
  const std::vector<onnx::DeclaredValue> inputs = onnx::inputs(*module);
  for (const std::string& text : fixed) {
    auto named = std::ranges::find_if(
        inputs, [&](const auto& input) { return text.starts_with(input.name + "="); });
    if (named == inputs.end()) {
      std::string all;
      for (const auto& input : inputs) all += (all.empty() ? "" : ", ") + input.name;
      Fail(fmt::format("--fix {}: it must be INPUT=VALUE; the inputs are: {}", text, all));
    }
    options.fixed[named->name] = FixedValue(*named, text.substr(named->name.size() + 1));
  }
  return onnx::load(path, options);
}

}  // namespace

ModulePtr LoadModule(const std::string& path, const std::vector<std::string>& fixed) {
  if (IsOnnx(path)) return LoadOnnx(path, fixed);
  std::string text = ReadFile(path);
  if (text.starts_with("HAMMOCKA")) return load_module(path);
  try {
    Graph graph = ParseGraph(text);
    auto module = std::make_shared<Module>("Graph");
    module->define(SchemaOf(graph), graph);
    return module;
  } catch (Error& error) {
    if (error.where().empty()) error.SetWhere(path);
    throw;
  }
}

namespace {

/// The graph of a method, or that which a delegate took over; null: none.
const GraphBody* BodyOf(const Module& module, const Method& method) {
  if (method.body || method.forwards_to.empty()) return method.body.get();
  return module.get_submodule(method.forwards_to)->method(method.schema.name()).body.get();
}

}  // namespace

namespace {

/// Declares the inputs of the file at the given sizes; a dim of unknown size has 1.
void DeclareArguments(Model& model, const DimSizes& dims) {
  bool all = true;
  for (const onnx::DeclaredValue& input : onnx::inputs(*model.module)) {
    model.names.push_back(input.name);
    Dims sizes;
    for (const onnx::DeclaredDim& dim : input.dims) {
      auto given = dims.find(dim.name);
      sizes.push_back(dim.size.value_or(given == dims.end() ? 1 : given->second));
    }
    all &= input.dtype.has_value() && input.ranked;
    if (all) model.arguments.push_back(Shape(*input.dtype, sizes));
  }
}

}  // namespace

Model LoadModel(const std::string& path, Needs needs, const OnnxOptions& options) {
  const DimSizes dims = ParseDims(options.dims);
  Model model;
  model.module = LoadModule(path, options.fixed);
  for (const auto& output : onnx::outputs(*model.module)) model.results.push_back(output.name);
  if (IsOnnx(path) && needs == Needs::kForward) {
    DeclareArguments(model, dims);
    return model;
  }
  if (needs == Needs::kSizedGraph && IsOnnx(path)) {
    onnx::trace(*model.module, {.dims = dims, .free = false});
  } else {
    TraceFree(path, *model.module, dims);
  }
  const Method& forward = model.module->method("forward");
  model.delegated = !forward.forwards_to.empty();
  const auto& arguments = forward.schema.arguments();
  const GraphBody* body = BodyOf(*model.module, forward);
  if (!body && needs == Needs::kForward) {
    for (const auto& argument : arguments) model.names.push_back(argument.name);
    return model;
  }
  if (!body) {
    throw NotSupported(ErrorCode::kNotSupported,
                       path + ": `forward` is no graph (" +
                           (model.delegated ? "a delegate runs it" : "it is code") + ")");
  }
  model.graph = *body->graph;
  model.argument_form = body->argument_form;
  for (size_t i = 0; i < body->num_arguments(); ++i) {
    model.arguments.push_back(model.graph[model.graph.inputs()[i]].type());
    bool one_each = arguments.size() == body->num_arguments();
    model.names.push_back(one_each ? arguments[i].name : "x" + std::to_string(i));
  }
  return model;
}

Any Model::Call(const std::vector<Tensor>& inputs) const {
  NoGradGuard no_grad;
  std::vector<Any> args(inputs.begin(), inputs.end());
  if (!argument_form.empty()) args = UnpackTensors(argument_form, inputs).ToList();
  return module->run_method("forward", args);
}

std::vector<Tensor> Model::operator()(const std::vector<Tensor>& inputs) const {
  return PackTensors(Call(inputs)).tensors;
}

namespace {

/// The number of the argument that "x1", "%1" or "1" names.
size_t ArgumentOf(const Model& model, const std::string& name) {
  for (size_t i = 0; i < model.names.size(); ++i) {
    bool known = i < model.graph.inputs().size();
    std::string value = known ? fmt::format("%{}", model.graph.inputs()[i].number()) : "";
    if (name == model.names[i] || name == std::to_string(i) || name == value) return i;
  }
  std::string all;
  for (const std::string& known : model.names) all += (all.empty() ? "" : ", ") + known;
  Fail(fmt::format("--input: there is no input '{}'; the inputs are: {}", name, all));
}

HostTensor MakeUp(const Shape& type, std::mt19937_64& engine) {
  HostTensor tensor(type);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    // Integers may be indices, so they stay small.
    bool whole = !IsFloat(type.dtype());
    tensor.set(i, whole ? Scalar(static_cast<int64_t>(engine() % 2)) : Scalar(normal(engine)));
  }
  return tensor;
}

/// Against the graph, where the model has one.
void CheckType(const Model& model, size_t i, const HostTensor& tensor, const std::string& path) {
  if (i >= model.arguments.size()) return;
  const Shape& type = model.arguments[i];
  bool free = !model.graph.dim_params.empty() || model.graph.size() == 0;
  if (tensor.dtype() == type.dtype() && (free || tensor.shape() == type)) return;
  Fail(fmt::format("--input {}: it has {}, input {} takes {}", path, tensor.shape().to_string(),
                   model.names[i], type.to_string()));
}

/// "name=file" where the part before "=" is a name of the model, or no path.
std::pair<std::string, std::string> SplitInput(const Model& model, const std::string& text) {
  for (const std::string& name : model.names) {
    if (text.starts_with(name + "=")) return {name, text.substr(name.size() + 1)};
  }
  size_t equals = text.find('=');
  if (equals == std::string::npos || text.substr(0, equals).find('/') != std::string::npos) {
    return {"", text};
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

std::vector<HostTensor> LoadInputs(const Model& model, const InputOptions& options) {
  std::vector<HostTensor> inputs(model.names.size());
  size_t next = 0;
  for (const std::string& text : options.files) {
    auto [name, path] = SplitInput(model, text);
    if (name.empty() && std::filesystem::path(path).extension() == ".npz") {
      io::NpzFile file = io::NpzFile::Open(path);
      for (const std::string& array : file.names()) {
        size_t i = ArgumentOf(model, array);
        inputs[i] = file.Read(array);
        CheckType(model, i, inputs[i], path);
      }
      continue;
    }
    size_t i = name.empty() ? next : ArgumentOf(model, name);
    if (i >= inputs.size()) {
      Fail(fmt::format("--input {}: the model takes {} inputs", path, inputs.size()));
    }
    HostTensor tensor = ReadTensor(path);
    CheckType(model, i, tensor, path);
    inputs[i] = std::move(tensor);
    next = i + 1;
  }
  std::mt19937_64 engine(options.seed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) continue;
    if (i >= model.arguments.size()) {
      Fail(fmt::format("input {} was not given; add --input {}=FILE.npy", model.names[i],
                       model.names[i]));
    }
    if (!options.random) {
      Fail(fmt::format("input {} ({}) was not given; add --input {}=FILE.npy, or --random",
                       model.names[i], model.arguments[i].to_string(), model.names[i]));
    }
    inputs[i] = MakeUp(model.arguments[i], engine);
  }
  return inputs;
}

}  // namespace hammock::tool
