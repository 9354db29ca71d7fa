#include "onnx/initializers.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/throw.h"
#include "hammock/ops.h"
#include "ir/borrowed.h"
#include "onnx/file.h"
#include "onnx/narrow.h"
#include "trace/tensor_impl.h"

namespace hammock::onnx {
namespace {

/// Larger parameters are never needed while nodes are recorded.
constexpr int64_t kMostKnown = 4096;

/// Elements of an initialiser.
class Initial : public Source {
 public:
  explicit Initial(HostTensor host) : host_(std::move(host)) {}
  const HostTensor& Host(size_t) override { return host_; }
  Tensor Record(size_t) override { return Recorded(host_, Device::FromId(Context().home_device)); }
  bool uses_parameters() const override { return IsFloat(host_.dtype()); }

 private:
  HostTensor host_;
};

/// A dense tensor of a sparse one.
HostTensor Dense(format::SparseTensor& sparse, const std::string& folder) {
  HostTensor values = TakeElements(sparse.values, folder);
  HostTensor indices = TakeElements(sparse.indices, folder).To(DType::kI64);
  Shape shape(values.dtype(), Dims(sparse.dims));
  CheckSizes("onnx: sparse tensor", shape.sizes());
  constexpr int64_t kMostElements = 1 << 28;  // all of them are stored
  if (shape.numel() > kMostElements) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "onnx: sparse tensor '{}' is {}, at most {} elements work",
                        sparse.values.name, shape.to_string(), kMostElements);
  }
  HostTensor dense(shape);
  std::memset(dense.mutable_data(), 0, static_cast<size_t>(dense.bytes()));
  auto flat = indices.values<int64_t>();
  bool coordinates = indices.shape().rank() == 2;
  Dims strides = ContiguousStrides(shape.sizes());
  int64_t width = coordinates ? shape.rank() : 1;
  if (static_cast<int64_t>(flat.size()) != values.numel() * width) {
    Throw(ErrorCode::kParse, "onnx: sparse tensor '{}' has {} values and indices {}",
          sparse.values.name, values.numel(), indices.shape().to_string());
  }
  for (int64_t i = 0; i < values.numel(); ++i) {
    int64_t at = 0;
    for (int d = 0; d < width; ++d) {
      const int64_t index = flat[static_cast<size_t>(i * width + d)];
      if (index < 0 || index >= (coordinates ? shape.size(d) : dense.numel())) {
        Throw(ErrorCode::kParse, "onnx: sparse tensor '{}' has the index {} outside of {}",
              sparse.values.name, index, shape.to_string());
      }
      at += index * (coordinates ? strides[d] : 1);
    }
    dense.set(at, values.at(i));
  }
  return dense;
}

/// Puts the tensors of a model into a module, by their names.
class Initializers {
 public:
  Initializers(Program& program, Module& module, const LoadOptions& options)
      : program_(program), module_(module), options_(options) {}

  /// Branches may have initialisers of one name: later ones are Constant nodes.
  void Add(format::Graph& graph) {
    for (format::Tensor& tensor : graph.initializers) {
      if (&graph != &program_.model.graph && program_.initializers.contains(tensor.name)) {
        graph.nodes.insert(graph.nodes.begin(), ConstantNode(tensor));
      } else if (tensor.element == format::kString) {
        AddText(tensor.name, tensor);
      } else {
        int32_t element = tensor.element;
        Add(tensor.name, TakeElements(tensor, options_.folder), element);
      }
    }
    for (format::SparseTensor& sparse : graph.sparse_initializers) {
      std::string name = sparse.values.name;
      int32_t element = sparse.values.element;
      Add(name, Dense(sparse, options_.folder), element);
    }
    AddConstants(graph.nodes);
  }

  /// Graphs inside of functions are run anew by each call: their initialisers are Constant nodes.
  static void MoveIntoNodes(std::vector<format::Node>& nodes) {
    for (format::Node& node : nodes) {
      for (format::Attribute& attribute : node.attributes) {
        for (auto& inner : attribute.graphs) {
          MoveIntoNodes(inner->nodes);
          std::vector<format::Node> constants;
          for (const format::Tensor& each : inner->initializers) {
            constants.push_back(ConstantNode(each));
          }
          inner->initializers.clear();
          inner->nodes.insert(inner->nodes.begin(), constants.begin(), constants.end());
        }
      }
    }
  }

  /// An input that has a value from now on.
  void Fix(const std::string& input, const HostTensor& host) {
    const std::vector<format::ValueInfo>& all = program_.model.graph.inputs;
    bool known = std::ranges::any_of(all, [&](const auto& info) { return info.name == input; });
    if (!known || program_.initializers.contains(input)) {
      Throw(ErrorCode::kUnknownName, "onnx: there is no input '{}' to fix", input);
    }
    AddKnown(input, host);
  }

  /// The tensors of Constant nodes are initialisers too.
  void AddConstants(std::vector<format::Node>& nodes) {
    std::erase_if(nodes, [&](format::Node& node) {
      for (format::Attribute& attribute : node.attributes) {
        for (auto& inner : attribute.graphs) Add(*inner);
      }
      bool constant = node.op == "Constant" && node.domain.empty() && node.outputs.size() == 1 &&
                      node.attributes.size() == 1;
      return constant && AddConstant(node.outputs[0], node.attributes[0]);
    });
  }

 private:
  static format::Node ConstantNode(const format::Tensor& tensor) {
    format::Node node;
    node.op = "Constant";
    node.outputs = {tensor.name};
    format::Attribute value;
    value.name = "value";
    value.kind = format::Attribute::kTensor;
    value.tensors = {tensor};
    node.attributes = {std::move(value)};
    return node;
  }

  bool AddConstant(const std::string& name, format::Attribute& attribute) {
    if (program_.initializers.contains(name)) return false;
    if (attribute.kind == format::Attribute::kTensor && !attribute.tensors.empty()) {
      format::Tensor& tensor = attribute.tensors[0];
      if (tensor.name.empty()) tensor.name = name;
      if (tensor.element == format::kString) {
        AddText(name, tensor);
        return true;
      }
      HostTensor host = TakeElements(tensor, options_.folder);
      bool weight = IsFloat(host.dtype()) && host.shape().rank() > 0 && host.numel() > 1;
      if (weight || IsNarrow(tensor.element)) {
        Add(name, std::move(host), tensor.element);
      } else {
        AddKnown(name, std::move(host));
      }
      return true;
    }
    if (attribute.kind == format::Attribute::kSparseTensor && !attribute.sparse_tensors.empty()) {
      int32_t element = attribute.sparse_tensors[0].values.element;
      Add(name, Dense(attribute.sparse_tensors[0], options_.folder), element);
      return true;
    }
    return false;
  }

  void AddKnown(const std::string& name, HostTensor host) {
    Initializer& added = program_.initializers[name];
    added.value = Value::Known(std::move(host));
    added.source = added.value.source;
  }

  void AddText(const std::string& name, const format::Tensor& tensor) {
    program_.initializers[name].value = Value::Text(Dims(tensor.dims), tensor.strings);
  }

  void Add(const std::string& name, HostTensor host, int32_t element) {
    if (program_.initializers.contains(name)) {
      Throw(ErrorCode::kValue, "onnx: two initialisers have the name '{}'", name);
    }
    Initializer& added = program_.initializers[name];
    if (IsNarrow(element)) added.element = element;
    bool parameter = IsFloat(host.dtype());
    if (!parameter || host.numel() <= kMostKnown) added.source = std::make_shared<Initial>(host);
    Shape shape = host.shape();
    Tensor tensor;
    if (IsBorrowed(host)) {
      tensor = from_blob(host.data(), shape.sizes(), shape.dtype(), BorrowedMemory([host] {}),
                         options_.device);
    } else {
      tensor = from_host(std::move(host), options_.device);
    }
    added.tensor = Register(name, tensor, parameter);
  }

  /// Dots make submodules; a name that cannot be one is changed.
  std::string Register(const std::string& name, const Tensor& tensor, bool parameter) {
    std::vector<std::string> parts{""};
    for (char c : name) {
      if (c == '.') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    Module* module = &module_;
    std::string path;
    bool good = std::ranges::none_of(parts, [](const std::string& part) { return part.empty(); });
    for (size_t i = 0; good && i + 1 < parts.size(); ++i) {
      if (i > 0) path += '.';
      path += parts[i];
      good = !tensors_.contains(path);
    }
    if (!good || modules_.contains(name) || tensors_.contains(name)) {
      std::string changed = name;
      std::ranges::replace(changed, '.', '_');
      while (changed.empty() || tensors_.contains(changed) || modules_.contains(changed)) {
        changed += '_';
      }
      return Register(changed, tensor, parameter);
    }
    path.clear();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      if (i > 0) path += '.';
      path += parts[i];
      auto [entry, added] = modules_.try_emplace(path, nullptr);
      if (added) {
        entry->second = module->register_module(parts[i], std::make_shared<Module>("Module")).get();
      }
      module = entry->second;
    }
    tensors_.insert(name);
    if (parameter) {
      module->register_parameter(parts.back(), tensor);
    } else {
      module->register_buffer(parts.back(), tensor);
    }
    return name;
  }

  Program& program_;
  Module& module_;
  const LoadOptions& options_;
  std::set<std::string> tensors_;
  std::map<std::string, Module*> modules_;
};

}  // namespace

void AddInitializers(Program& program, Module& module, const LoadOptions& options) {
  Initializers initializers(program, module, options);
  initializers.Add(program.model.graph);
  for (format::Function& function : program.model.functions) {
    Initializers::MoveIntoNodes(function.nodes);
  }
  for (const auto& [input, host] : options.fixed) initializers.Fix(input, host);
}

}  // namespace hammock::onnx
