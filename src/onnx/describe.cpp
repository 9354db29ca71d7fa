#include <algorithm>
#include <map>

#include "base/location_scope.h"
#include "base/whole_file.h"
#include "hammock/onnx.h"
#include "onnx/call.h"
#include "onnx/file.h"

namespace hammock::onnx {
namespace {

std::string TypeText(const format::Type& type) {
  switch (type.kind) {
    case format::Type::kSequence:
      return "sequence of " + (type.inner ? TypeText(*type.inner) : "?");
    case format::Type::kOptional:
      return "optional " + (type.inner ? TypeText(*type.inner) : "?");
    case format::Type::kNone:
    case format::Type::kMap:
    case format::Type::kTensor:
    case format::Type::kSparseTensor:
      break;
  }
  std::string text;
  try {
    text = NameOf(DTypeOfElement(type.element));
  } catch (const NotSupported&) {
    text = type.element == format::kString ? "str" : NameOfElement(type.element);
  }
  if (!type.has_shape) return text;
  text += '[';
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const format::Dim& dim = type.dims[i];
    if (i > 0) text += ',';
    text += dim.value >= 0 ? std::to_string(dim.value) : dim.param.empty() ? "?" : dim.param;
  }
  return text + ']';
}

struct Contents {
  std::map<std::string, int> operators;
  int64_t tensors = 0, elements = 0, nodes = 0;
};

using Opsets = std::vector<format::OperatorSet>;

void Count(const std::vector<format::Node>& nodes, const format::Model& model, const Opsets& own,
           Contents& contents);

void Count(const format::Graph& graph, const format::Model& model, const Opsets& own,
           Contents& contents) {
  for (const format::Tensor& tensor : graph.initializers) {
    int64_t elements = 1;
    for (int64_t dim : tensor.dims) {
      if (__builtin_mul_overflow(elements, dim, &elements)) elements = 0;
    }
    ++contents.tensors;
    if (__builtin_add_overflow(contents.elements, elements, &contents.elements)) {
      contents.elements = 0;
    }
  }
  Count(graph.nodes, model, own, contents);
}

int64_t OpsetOf(const std::string& domain, const Opsets& opsets, int64_t otherwise) {
  auto set = std::ranges::find(opsets, domain, &format::OperatorSet::domain);
  return set == opsets.end() ? otherwise : set->version;
}

/// `own`: the opsets of the function that the nodes are in.
void Count(const std::vector<format::Node>& nodes, const format::Model& model, const Opsets& own,
           Contents& contents) {
  for (const format::Node& node : nodes) {
    std::string name = node.domain.empty() ? node.op : node.domain + "." + node.op;
    const int64_t opset = OpsetOf(node.domain, own, OpsetOf(node.domain, model.opsets, 1));
    bool of_file = std::any_of(model.functions.begin(), model.functions.end(),
                               [&](const format::Function& function) {
                                 return function.name == node.op && function.domain == node.domain;
                               });
    if (!of_file && !FindOperator(node.domain, node.op, opset)) name += " (missing)";
    ++contents.operators[name];
    ++contents.nodes;
    for (const format::Attribute& attribute : node.attributes) {
      for (const auto& graph : attribute.graphs) Count(*graph, model, own, contents);
    }
  }
}

}  // namespace

std::string describe(const std::string& path, Location at) {
  LocationScope scope(at);
  MappedFile file = MapFile(path);
  format::Model model = ParseModel(file.bytes, path);
  std::string text = fmt::format("ONNX, version {} of the format, by {} {}\n", model.ir_version,
                                 model.producer_name, model.producer_version);
  for (const format::OperatorSet& set : model.opsets) {
    text +=
        fmt::format("opset {} of {}\n", set.version, set.domain.empty() ? "ai.onnx" : set.domain);
  }
  for (const format::ValueInfo& input : model.graph.inputs) {
    text += fmt::format("input {} : {}\n", input.name, TypeText(input.type));
  }
  for (const format::ValueInfo& output : model.graph.outputs) {
    text += fmt::format("output {} : {}\n", output.name, TypeText(output.type));
  }
  Contents contents;
  Count(model.graph, model, {}, contents);
  for (const format::Function& function : model.functions) {
    text += fmt::format("function {}.{}\n", function.domain, function.name);
    Count(function.nodes, model, function.opsets, contents);
  }
  text += fmt::format("{} initialisers of {} elements\n{} nodes\n", contents.tensors,
                      contents.elements, contents.nodes);
  for (const auto& [name, count] : contents.operators) {
    text += fmt::format("  {:<40}{}\n", name, count);
  }
  return text;
}

}  // namespace hammock::onnx
