#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "base/location_scope.h"
#include "base/throw.h"
#include "base/whole_file.h"
#include "hammock/autograd.h"
#include "hammock/onnx.h"
#include "hammock/ops.h"
#include "ir/borrowed.h"
#include "onnx/file.h"
#include "onnx/fold_quantization.h"
#include "onnx/initializers.h"
#include "onnx/narrow.h"
#include "onnx/program.h"
#include "trace/tensor_impl.h"

namespace hammock::onnx {
namespace {

// ---- the method

std::string ArgumentName(const std::string& name, std::set<std::string>& taken) {
  std::string argument;
  for (char c : name) {
    argument += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  if (argument.empty() || std::isdigit(static_cast<unsigned char>(argument[0]))) {
    argument.insert(argument.begin(), 'x');
  }
  while (!taken.insert(argument).second) argument += "_";
  return argument;
}

/// Sequences, optionals and strings have no type of their own in schemas.
const char* SchemaTypeOf(const format::Type& type) {
  return type.kind == format::Type::kTensor && type.element != format::kString ? "Tensor" : "Any";
}

Any Declared(const format::ValueInfo& value, const std::string& argument) {
  AnyDict dict;
  dict["name"] = value.name;
  dict["argument"] = argument;
  const format::Type* type = &value.type;
  dict["kind"] = type->kind == format::Type::kSequence   ? "sequence"
                 : type->kind == format::Type::kOptional ? "optional"
                                                         : "tensor";
  while (type->inner) type = type->inner.get();
  dict["element"] = static_cast<int64_t>(type->element);
  dict["ranked"] = type->has_shape && type->kind == format::Type::kTensor;
  AnyList dims;
  for (const format::Dim& dim : type->dims) {
    dims.push_back(dim.value >= 0 ? Any(dim.value) : Any(dim.param));
  }
  dict["dims"] = std::move(dims);
  return dict;
}

/// Numbers, or tensors of one element, by their keys.
Value MapOf(const AnyDict& dict, const format::ValueInfo& info) {
  std::vector<std::string> keys;
  std::vector<Tensor> values;
  for (const auto& [key, any] : dict) {
    keys.push_back(key);
    values.push_back((any.IsTensor() ? any.ToTensor() : tensor(any.ToScalar())).reshape({1}));
  }
  if (keys.empty()) Throw(ErrorCode::kValue, "onnx: input '{}' is an empty map", info.name);
  return Value::Map(std::move(keys), cat(values));
}

/// The strings of lists in lists, one list for each dim but the last.
void AddTexts(const AnyList& list, int depth, Dims& sizes, std::vector<std::string>& elements) {
  if (depth == sizes.size()) sizes.push_back(static_cast<int64_t>(list.size()));
  for (const Any& item : list) {
    if (item.IsSequence()) {
      AddTexts(item.ToList(), depth + 1, sizes, elements);
    } else {
      elements.push_back(item.ToStringRef());
    }
  }
}

/// A flat list has the sizes of the file, where they are known.
Value TextsOf(const AnyList& list, const format::ValueInfo& info) {
  Dims sizes, declared;
  std::vector<std::string> elements;
  AddTexts(list, 0, sizes, elements);
  const auto count = static_cast<int64_t>(elements.size());
  for (const format::Dim& dim : info.type.dims) declared.push_back(dim.value);
  if (sizes.size() == 1 && info.type.has_shape && CountOf(declared) == count) sizes = declared;
  if (CountOf(sizes) != count) {
    Throw(ErrorCode::kShapeMismatch, "onnx: input '{}' has {} strings in lists of unequal sizes",
          info.name, count);
  }
  return Value::Text(sizes, std::move(elements));
}

/// The opposite: a list in lists, of which `next` is the first string.
AnyList ListsOf(const Dims& sizes, int dim, const std::string*& next) {
  AnyList items;
  const int64_t count = sizes.empty() ? 1 : sizes[dim];
  for (int64_t i = 0; i < count; ++i) {
    items.push_back(dim + 1 >= sizes.size() ? Any(*next++) : Any(ListsOf(sizes, dim + 1, next)));
  }
  return items;
}

Value FromAny(const Any& any, const format::ValueInfo& info) {
  if (any.IsNone()) return Value();
  if (any.IsTensor()) {
    Value value = any.ToTensor();
    const format::Type* type = &info.type;
    while (type->inner) type = type->inner.get();
    if (IsNarrow(type->element)) value.element = type->element;
    return value;
  }
  if (any.IsNumber()) return Value(tensor(any.ToScalar()));
  if (any.kind() == Any::Kind::kDict) return MapOf(any.ToDict(), info);
  if (!any.IsSequence()) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "onnx: input '{}' is given a {}", info.name,
                     any.type_name());
  }
  const AnyList& list = any.ToList();
  bool text = info.type.kind == format::Type::kTensor && info.type.element == format::kString;
  if (text) return TextsOf(list, info);
  Values items;
  for (const Any& item : list) {
    items.push_back(item.kind() == Any::Kind::kString ? Value::Text({}, {item.ToStringRef()})
                                                      : FromAny(item, info));
  }
  return Value::Sequence(std::move(items));
}

Any ToAny(Run& run, const Value& value) {
  switch (value.kind) {
    case Value::Kind::kAbsent:
      return Any();
    case Value::Kind::kTensor: {
      Tensor tensor = run.TensorOf(value);
      // A number on no device of its own.
      return tensor.value().node->device() == kNoDevice ? tensor.to(run.device()) : tensor;
    }
    case Value::Kind::kSequence: {
      AnyList items;
      for (const Value& item : value.items) items.push_back(ToAny(run, item));
      return items;
    }
    case Value::Kind::kMap: {
      AnyDict dict;
      for (size_t i = 0; i < value.strings->elements.size(); ++i) {
        dict[value.strings->elements[i]] = select(value.tensor, 0, static_cast<int64_t>(i));
      }
      return dict;
    }
    case Value::Kind::kStrings: {
      const std::string* first = value.strings->elements.data();
      return ListsOf(value.strings->sizes, 0, first);
    }
  }
  return Any();
}

/// One value, or a tuple of them.
Any Results(Run& run, const Values& outputs) {
  if (outputs.size() == 1) return ToAny(run, outputs[0]);
  AnyList results;
  for (const Value& output : outputs) results.push_back(ToAny(run, output));
  return Any::Tuple(std::move(results));
}

/// A wrong dtype, rank or size is refused before anything is recorded.
void CheckInput(const format::ValueInfo& info, const Value& value) {
  if (info.type.kind != format::Type::kTensor || value.kind != Value::Kind::kTensor) return;
  const Shape& shape = value.tensor.shape();
  if (info.type.element != format::kUndefined && shape.dtype() != StorageOf(info.type.element)) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "onnx: input '{}' is {}, needs {}", info.name,
                     shape.to_string(), NameOf(StorageOf(info.type.element)));
  }
  if (!info.type.has_shape) return;
  std::string wanted;
  bool fits = static_cast<size_t>(shape.rank()) == info.type.dims.size();
  for (size_t i = 0; i < info.type.dims.size(); ++i) {
    const format::Dim& dim = info.type.dims[i];
    if (i > 0) wanted += ',';
    wanted += dim.value >= 0 ? std::to_string(dim.value) : dim.param.empty() ? "?" : dim.param;
    if (!fits || dim.value <= 0) continue;
    fits = shape.size(static_cast<int>(i)) == dim.value;
  }
  // Files declare vectors of one element as scalars, and ONNX Runtime takes both.
  if (fits || (info.type.dims.empty() && shape.numel() == 1)) return;
  Throw(ErrorCode::kShapeMismatch, "onnx: input '{}' is {}, needs [{}]", info.name,
        shape.to_string(), wanted);
}

Any Forward(const Program& program, Module& self, const std::vector<Any>& args) {
  Values inputs;
  std::optional<Device> device;
  for (size_t i = 0; i < args.size(); ++i) {
    inputs.push_back(FromAny(args[i], *program.inputs[i]));
    CheckInput(*program.inputs[i], inputs.back());
    if (inputs.back().tensor.defined() && !device) device = inputs.back().tensor.device();
  }
  NamedTensors parameters = self.named_parameters(true, false);
  NamedTensors buffers = self.named_buffers(true, false);
  std::unordered_map<std::string_view, const Tensor*> tensors;
  for (const NamedTensors* list : {&parameters, &buffers}) {
    for (const auto& [name, tensor] : *list) {
      tensors[name] = &tensor;
      if (!device) device = tensor.device();
    }
  }
  Run run(program, device.value_or(Device()));
  BakingScope baking(run.device().id());
  Scope scope;
  for (const auto& [name, initializer] : program.initializers) {
    Value value = initializer.value;
    if (value.absent()) {
      auto found = tensors.find(initializer.tensor);
      if (found == tensors.end()) {
        Throw(ErrorCode::kUnknownName, "onnx: the module has no tensor '{}' any more",
              initializer.tensor);
      }
      value = *found->second;
      value.source = initializer.source;
      value.element = initializer.element;
    }
    scope.Set(name, std::move(value));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    scope.Set(program.inputs[i]->name, std::move(inputs[i]));
  }
  Values outputs = run.RunGraph(program.model.graph, scope);
  return Results(run, outputs);
}

void CheckOpsets(const Program& program) {
  int64_t opset = program.OpsetOf("");
  if (opset >= 1 && opset <= kNewestOpset) return;
  Throw<NotSupported>(ErrorCode::kNotSupported,
                      "onnx: the model uses opset {} of ai.onnx; 1 to {} are known", opset,
                      kNewestOpset);
}

/// Functions of the file are methods too, "domain_name" where a name has letters that methods lack.
void DefineFunctions(Module& module, const std::shared_ptr<const Program>& program) {
  std::set<std::string> taken{"forward"};
  for (const format::Function& function : program->model.functions) {
    std::string full =
        function.domain.empty() ? function.name : function.domain + "_" + function.name;
    std::string schema = ArgumentName(full, taken) + "(";
    std::set<std::string> arguments;
    for (const std::string& input : function.inputs) {
      schema += arguments.empty() ? "Any " : ", Any ";
      schema += ArgumentName(input, arguments);
    }
    schema += ") -> Any";
    module.define(schema, [program, &function](Module&, const std::vector<Any>& args) {
      Values inputs;
      std::optional<Device> device;
      for (const Any& arg : args) {
        inputs.push_back(FromAny(arg, {}));
        if (inputs.back().tensor.defined() && !device) device = inputs.back().tensor.device();
      }
      Run run(*program, device.value_or(Device()));
      BakingScope baking(run.device().id());
      format::Node node;  // attributes have their defaults
      node.op = function.name;
      node.domain = function.domain;
      return Results(run, run.RunFunction(function, node, std::move(inputs)));
    });
  }
}

ModulePtr LoadBytes(std::string_view bytes, const std::string& name, const LoadOptions& options) {
  auto program = std::make_shared<Program>();
  program->model = ParseModel(bytes, name);
  format::Model& model = program->model;
  if (model.graph.nodes.empty() && model.graph.outputs.empty()) {
    Throw(ErrorCode::kParse, "onnx: {}: the file holds no graph", name);
  }
  for (const format::OperatorSet& set : model.opsets) program->opsets[set.domain] = set.version;
  CheckOpsets(*program);
  for (const format::Function& function : model.functions) {
    program->functions[function.domain + "::" + function.name + ":" + function.overload] =
        &function;
  }
  CheckProgram(*program);
  FoldQuantization(model);
  auto module = std::make_shared<Module>("Onnx");
  AddInitializers(*program, *module, options);
  std::set<std::string> taken;
  std::string schema = "forward(";
  AnyList inputs, outputs;
  for (const format::ValueInfo& input : model.graph.inputs) {
    if (program->initializers.contains(input.name)) continue;
    program->inputs.push_back(&input);
    std::string argument = ArgumentName(input.name, taken);
    schema +=
        fmt::format("{}{} {}", inputs.empty() ? "" : ", ", SchemaTypeOf(input.type), argument);
    inputs.push_back(Declared(input, argument));
  }
  schema += ") -> ";
  if (model.graph.outputs.size() != 1) schema += "(";
  for (const format::ValueInfo& output : model.graph.outputs) {
    schema += fmt::format("{}{}", outputs.empty() ? "" : ", ", SchemaTypeOf(output.type));
    outputs.push_back(Declared(output, ""));
  }
  if (model.graph.outputs.size() != 1) schema += ")";
  module->set_attribute("onnx_inputs", std::move(inputs));
  module->set_attribute("onnx_outputs", std::move(outputs));
  program->RememberPlaces();
  std::shared_ptr<const Program> shared = program;
  module->define(schema, [shared](Module& self, const std::vector<Any>& args) {
    return Forward(*shared, self, args);
  });
  DefineFunctions(*module, shared);
  return module;
}

std::vector<DeclaredValue> DeclaredOf(const Module& module, const char* attribute) {
  std::vector<DeclaredValue> values;
  auto found = module.attributes().find(attribute);
  if (found == module.attributes().end()) return values;
  for (const Any& entry : found->second.ToList()) {
    const AnyDict& dict = entry.ToDict();
    DeclaredValue value;
    value.name = dict.at("name").ToStringRef();
    value.argument = dict.at("argument").ToStringRef();
    value.ranked = dict.at("ranked").ToBool();
    auto element = static_cast<int32_t>(dict.at("element").ToInt());
    value.element = NameOfElement(element);
    if (element != format::kString && element != format::kUndefined && element <= format::kInt2) {
      value.dtype = StorageOf(element);
    }
    if (dict.at("kind").ToStringRef() != "tensor") value.dtype.reset();
    for (const Any& dim : dict.at("dims").ToList()) {
      bool known = dim.kind() == Any::Kind::kInt;
      value.dims.push_back(known ? DeclaredDim{dim.ToInt(), ""}
                                 : DeclaredDim{std::nullopt, dim.ToStringRef()});
    }
    values.push_back(std::move(value));
  }
  return values;
}

format::Type TypeOf(const Module& module, const char* attribute, size_t index) {
  const AnyList& list = module.attribute(attribute).ToList();
  format::Type type;
  if (index >= list.size()) {
    Throw(ErrorCode::kValue, "onnx: the model has {} of them, number {} is asked for", list.size(),
          index);
  }
  const std::string& kind = list[index].ToDict().at("kind").ToStringRef();
  type.kind = kind == "sequence"   ? format::Type::kSequence
              : kind == "optional" ? format::Type::kOptional
                                   : format::Type::kTensor;
  return type;
}

Any AnyOf(format::Value& value, const Device& device) {
  if (value.kind == format::Value::kAbsent) return Any();
  if (value.kind == format::Value::kSequence) {
    AnyList items;
    for (format::Value& item : value.items) {
      if (item.kind == format::Value::kTensor && item.tensor.element == format::kString &&
          item.tensor.strings.size() == 1) {
        items.push_back(item.tensor.strings[0]);
      } else {
        items.push_back(AnyOf(item, device));
      }
    }
    return items;
  }
  if (value.tensor.element == format::kString) {
    const Value text = Value::Text(Dims(value.tensor.dims), value.tensor.strings);
    const std::string* first = text.strings->elements.data();
    return ListsOf(text.strings->sizes, 0, first);
  }
  return from_host(TakeElements(value.tensor, ""), device);
}

Any ReadAs(const std::string& path, const format::Type& type, const Device& device) {
  MappedFile file = MapFile(path);
  format::Value value = ParseValue(file.bytes, type, path);
  return AnyOf(value, device);
}

}  // namespace

ModulePtr load(const std::string& path, const LoadOptions& options, Location at) {
  LocationScope scope(at);
  LoadOptions own = options;
  if (own.folder.empty()) {
    own.folder = std::filesystem::path(path).parent_path().string();
    if (own.folder.empty()) own.folder += '.';
  }
  MappedFile file = MapFile(path);
  return LoadBytes(file.bytes, path, own);
}

ModulePtr load(std::span<const std::byte> bytes, const LoadOptions& options, Location at) {
  LocationScope scope(at);
  return LoadBytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "model", options);
}

std::vector<DeclaredValue> inputs(const Module& module) {
  return DeclaredOf(module, "onnx_inputs");
}
std::vector<DeclaredValue> outputs(const Module& module) {
  return DeclaredOf(module, "onnx_outputs");
}

Any read_value(const std::string& path, const Module& module, size_t input, const Device& device,
               Location at) {
  LocationScope scope(at);
  return ReadAs(path, TypeOf(module, "onnx_inputs", input), device);
}

Any read_output(const std::string& path, const Module& module, size_t output, const Device& device,
                Location at) {
  LocationScope scope(at);
  return ReadAs(path, TypeOf(module, "onnx_outputs", output), device);
}

HostTensor read_tensor(const std::string& path, Location at) {
  LocationScope scope(at);
  MappedFile file = MapFile(path);
  format::Value value = ParseValue(file.bytes, {}, path);
  return TakeElements(value.tensor, "");
}

namespace {

Any ExampleOf(const DeclaredValue& input, const TraceSizes& sizes) {
  if (!input.dtype || !input.ranked) {
    Throw(ErrorCode::kValue, "onnx: trace: the type of input '{}' is not declared; give examples",
          input.name);
  }
  Dims dims;
  for (const DeclaredDim& dim : input.dims) {
    int64_t size = 2;
    if (dim.size) {
      size = *dim.size;
    } else if (auto given = sizes.dims.find(dim.name); given != sizes.dims.end()) {
      size = given->second;
    }
    dims.push_back(size);
  }
  return zeros(dims, *input.dtype);
}

}  // namespace

void trace(Module& module, const std::vector<Any>& examples, const TraceSizes& sizes, Location at) {
  LocationScope scope(at);
  TraceOptions options;
  std::vector<DeclaredValue> declared = inputs(module);
  for (size_t i = 0; sizes.free && i < declared.size(); ++i) {
    for (size_t d = 0; d < declared[i].dims.size(); ++d) {
      const std::string& name = declared[i].dims[d].name;
      bool example_is_free = i < examples.size() && examples[i].IsTensor() &&
                             examples[i].ToTensor().size(static_cast<int64_t>(d)) > 1;
      if (name.empty() || !example_is_free) continue;
      options.free_dims.push_back({declared[i].argument, static_cast<int>(d), name});
    }
  }
  module.trace("forward", examples, options, at);
}

void trace(Module& module, const TraceSizes& sizes, Location at) {
  LocationScope scope(at);
  std::vector<Any> examples;
  for (const DeclaredValue& input : inputs(module)) examples.push_back(ExampleOf(input, sizes));
  trace(module, examples, sizes, at);
}

std::vector<OperatorRange> operators() {
  std::vector<OperatorRange> ranges;
  for (const Operator* op : AllOperators()) {
    if (op->domain == std::string_view(kDequantizedDomain)) continue;  // in no file
    ranges.push_back({op->domain, op->name, op->since, op->until});
  }
  return ranges;
}

std::string why_absent() { return WhyAbsent(); }

}  // namespace hammock::onnx
