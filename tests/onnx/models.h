#pragma once
/// Small models, made by code.

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "hammock/onnx.h"
#include "hammock/ops.h"
#include "onnx/call.h"
#include "onnx/file.h"

namespace hammock::onnx::testing {

inline format::ValueInfo Info(const std::string& name, int32_t element,
                              std::vector<format::Dim> dims) {
  format::ValueInfo info{name, {}};
  info.type.kind = format::Type::kTensor;
  info.type.element = element;
  info.type.has_shape = true;
  info.type.dims = std::move(dims);
  return info;
}

inline format::Node Node(const std::string& op, std::vector<std::string> inputs,
                         std::vector<std::string> outputs,
                         std::vector<format::Attribute> attributes = {}) {
  format::Node node;
  node.name = op + "_" + outputs.at(0);
  node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.attributes = std::move(attributes);
  return node;
}

inline format::Attribute IntAttribute(const std::string& name, int64_t value) {
  format::Attribute attribute;
  attribute.name = name;
  attribute.kind = format::Attribute::kInt;
  attribute.i = value;
  return attribute;
}

inline format::Attribute GraphAttribute(const std::string& name, format::Graph graph) {
  format::Attribute attribute;
  attribute.name = name;
  attribute.kind = format::Attribute::kGraph;
  attribute.graphs.push_back(std::make_shared<format::Graph>(std::move(graph)));
  return attribute;
}

template <class T>
format::Tensor Initial(const std::string& name, const std::vector<T>& values,
                       std::vector<int64_t> dims) {
  format::Tensor tensor;
  tensor.name = name;
  tensor.element = ElementOfDType(DTypeOf<T>);
  tensor.dims = std::move(dims);
  tensor.bytes.resize(values.size() * sizeof(T));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

inline format::Model ModelOf(format::Graph graph, int64_t opset = 21) {
  format::Model model;
  model.ir_version = 8;
  model.graph = std::move(graph);
  model.opsets.push_back({"", opset});
  return model;
}

inline std::string Bytes(const format::Model& model) { return WriteModel(model); }

inline ModulePtr Load(const std::string& bytes, const LoadOptions& options = {}) {
  return load(std::as_bytes(std::span(bytes.data(), bytes.size())), options);
}
inline ModulePtr Load(const format::Model& model, const LoadOptions& options = {}) {
  return Load(Bytes(model), options);
}

/// x[batch, 4] times a weight, plus a bias, of which the shape is computed, through a relu.
inline format::Model Linear() {
  format::Graph graph;
  graph.inputs.push_back(Info("x", format::kFloat, {{-1, "batch"}, {4, ""}}));
  graph.outputs.push_back(Info("y", format::kFloat, {{-1, "batch"}, {3, ""}}));
  graph.initializers.push_back(
      Initial<float>("fc.weight", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {4, 3}));
  graph.initializers.push_back(Initial<float>("fc.bias", {1, -100, 0}, {3}));
  graph.nodes.push_back(Node("MatMul", {"x", "fc.weight"}, {"product"}));
  graph.nodes.push_back(Node("Shape", {"product"}, {"shape"}));
  graph.nodes.push_back(Node("Expand", {"fc.bias", "shape"}, {"bias"}));
  graph.nodes.push_back(Node("Add", {"product", "bias"}, {"sum"}));
  graph.nodes.push_back(Node("Relu", {"sum"}, {"y"}));
  return ModelOf(std::move(graph));
}

}  // namespace hammock::onnx::testing
