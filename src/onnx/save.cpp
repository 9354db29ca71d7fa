/// From graphs to ONNX files.

#include <set>

#include "base/location_scope.h"
#include "base/throw.h"
#include "base/whole_file.h"
#include "hammock/onnx.h"
#include "hammock/ops.h"
#include "onnx/file.h"
#include "onnx/save_writer.h"

namespace hammock::onnx {
namespace {

format::ValueInfo InfoOf(const Graph& graph, GraphValue value, const std::string& name,
                         const std::map<int, std::string>& dims, int opset) {
  format::ValueInfo info{name, {}};
  const Shape& type = graph.TypeOf(value);
  info.type.kind = format::Type::kTensor;
  info.type.element = ElementAt(opset, type.dtype());
  info.type.has_shape = true;
  for (int d = 0; d < type.rank(); ++d) {
    auto expr = graph.dim_exprs.find({value.node, value.index, d});
    if (expr == graph.dim_exprs.end()) {
      info.type.dims.push_back({type.size(d), ""});
      continue;
    }
    bool plain = expr->second.constant == 0 && expr->second.terms.size() == 1 &&
                 expr->second.terms[0].second == 1;
    info.type.dims.push_back({-1, plain ? dims.at(expr->second.terms[0].first) : ""});
  }
  return info;
}

/// Refuses values that the graph does not hold, and those that files hold in another form.
void CheckWritable(const Graph& graph, std::span<const DeclaredValue> declared,
                   std::span<const GraphValue> values, const char* what) {
  for (const DeclaredValue& value : declared) {
    if (!value.dtype) {
      Throw<NotSupported>(ErrorCode::kNotSupported,
                          "onnx: save: the {} '{}' is no tensor of numbers", what, value.name);
    }
    if (value.element == NameOfElement(ElementOfDType(*value.dtype))) continue;
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "onnx: save: the {} '{}' has elements of {}, which the graph holds as codes"
                        " in {}",
                        what, value.name, value.element, NameOf(*value.dtype));
  }
  for (GraphValue value : values) {
    if (!IsComplex(graph.TypeOf(value).dtype())) continue;
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: save: an {} is complex, {}", what,
                        graph.TypeOf(value).to_string());
  }
}

/// The parameter that a size of an input is; -1 if it is none.
int PlainParam(const Graph& graph, size_t input, int dim) {
  auto expr = graph.dim_exprs.find({graph.inputs()[input], 0, dim});
  bool plain = expr != graph.dim_exprs.end() && expr->second.constant == 0 &&
               expr->second.terms.size() == 1 && expr->second.terms[0].second == 1;
  return plain ? expr->second.terms[0].first : -1;
}

/// Names of the free dims of a prepared graph: those that the traced one has at its inputs.
std::map<int, std::string> DimNames(const Graph& graph, const Graph& traced) {
  std::map<int, std::string> names;
  for (size_t i = 0; i < graph.dim_params.size(); ++i) {
    names[static_cast<int>(i)] = graph.dim_params[i].name;
  }
  for (size_t i = 0; i < graph.inputs().size() && i < traced.inputs().size(); ++i) {
    for (int d = 0; d < graph[graph.inputs()[i]].type().rank(); ++d) {
      int own = PlainParam(graph, i, d), before = PlainParam(traced, i, d);
      if (own >= 0 && before >= 0) names[own] = traced.dim_params[static_cast<size_t>(before)].name;
    }
  }
  return names;
}

/// The version of the format that came with an opset.
int64_t FormatOf(int opset) {
  struct {
    int opset, format;
  } constexpr kFirst[] = {{25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}};
  for (const auto& row : kFirst) {
    if (opset >= row.opset) return row.format;
  }
  return 8;
}

}  // namespace

void save(const Module& module, const std::string& path, int opset, Location at) {
  LocationScope scope(at);
  constexpr int kOldest = 14;
  if (opset < kOldest || opset > kNewestOpset) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: save: opset {}; {} to {} are written",
                        opset, kOldest, kNewestOpset);
  }
  const GraphBody& body = module.graph_body("forward");
  if (!body.writes.empty()) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: save: `forward` writes to the module");
  }
  std::vector<DeclaredValue> declared = inputs(module), results = outputs(module);
  std::vector<GraphValue> given;
  for (NodeId id : body.graph->inputs()) given.push_back({id, 0});
  CheckWritable(*body.graph, declared, given, "input");
  CheckWritable(*body.graph, results, body.graph->outputs(), "output");
  Graph graph = Prepared(*body.graph, "onnx: save");
  format::Model model;
  model.ir_version = FormatOf(opset);
  model.producer_name = "hammock";
  model.opsets.push_back({"", opset});
  model.graph.name = module.class_name();
  Naming naming{.opset = opset, .outermost = &model.graph};
  Writer writer(graph, model.graph, naming);
  std::map<int, std::string> dims = DimNames(graph, *body.graph);
  const auto& arguments = module.method("forward").schema.arguments();
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    GraphValue value{graph.inputs()[i], 0};
    if (i < body.num_arguments()) {
      bool one_each = arguments.size() == body.num_arguments();
      std::string name = i < declared.size() ? declared[i].name
                         : one_each          ? arguments[i].name
                                             : fmt::format("x{}", i);
      writer.SetName(value, name);
      model.graph.inputs.push_back(InfoOf(graph, value, name, dims, opset));
      continue;
    }
    const Capture& capture = body.captures.at(i - body.num_arguments());
    if (capture.random_blocks > 0) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: save: `forward` draws random numbers");
    }
    Tensor tensor = capture.name.empty() ? capture.constant : module.get_tensor(capture.name);
    writer.SetName(value, writer.Initializer(tensor.host(), capture.name));
  }
  WriteNodes(writer);
  if (!naming.missing.empty()) {
    std::string text;
    for (const auto& [op, count] : naming.missing) text += fmt::format("\n  {}: {}", op, count);
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: save: ops that are not written:{}", text);
  }
  std::set<std::string> taken;
  for (size_t i = 0; i < body.num_results(); ++i) {
    GraphValue value = graph.outputs()[i];
    std::string name = i < results.size() ? results[i].name : fmt::format("y{}", i);
    while (!taken.insert(name).second) name += "_";
    writer.Emit("Identity", {writer.NameOf(value)}, {}, name);
    model.graph.outputs.push_back(InfoOf(graph, value, name, dims, opset));
  }
  std::string bytes = WriteModel(model);
  const std::string_view parts[] = {bytes};
  WriteWholeFile(path, parts);
}

}  // namespace hammock::onnx
