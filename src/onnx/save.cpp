/// From graphs to ONNX files.

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/location_scope.h"
#include "base/throw.h"
#include "base/whole_file.h"
#include "compiler/passes/expand.h"
#include "compiler/sizes/generalise.h"
#include "hammock/ir/graph.h"
#include "hammock/onnx.h"
#include "hammock/ops.h"
#include "ir/graph_sizes.h"
#include "ir/primitives.h"
#include "onnx/call.h"
#include "onnx/file.h"

namespace hammock::onnx {
namespace {

/// Composites that ONNX has too.
bool IsKept(const OpDef& op) {
  std::string_view name = op.name();
  return name == "relu" || name == "softmax" || name == "log_softmax";
}

/// The graph without other composites. One with free dims is expanded at two sizes.
Graph Prepared(const Graph& graph, const std::string& what) {
  auto keep = [](const Graph& g, NodeId id) { return IsKept(*g[id].op); };
  if (graph.dim_params.empty()) return ExpandComposites(graph, keep);
  std::vector<int64_t> first, second;
  for (const DimParam& param : graph.dim_params) {
    first.push_back(param.value);
    second.push_back(param.value * (2 + static_cast<int64_t>(second.size())));
  }
  const Graph samples[] = {ExpandComposites(AtSizes(graph, first), keep),
                           ExpandComposites(AtSizes(graph, second), keep)};
  return GeneralGraph(what, samples);
}

struct Size {
  int64_t value = 0;
  const DimExpr* expr = nullptr;  // where it is not fixed
};

class Writer {
 public:
  Writer(const Graph& graph, format::Graph& out) : graph_(graph), out_(out) {}

  std::string NameOf(GraphValue value) const { return names_.at({value.node, value.index}); }
  void SetName(GraphValue value, const std::string& name) {
    names_[{value.node, value.index}] = name;
  }

  const Graph& graph() const { return graph_; }
  std::string Fresh() { return fmt::format("t{}", next_++); }

  /// Appends a node of one result and returns its name.
  std::string Emit(const std::string& op, std::vector<std::string> inputs,
                   std::vector<format::Attribute> attributes = {}, std::string result = "") {
    return EmitMany(op, std::move(inputs), 1, std::move(attributes), std::move(result))[0];
  }
  std::vector<std::string> EmitMany(const std::string& op, std::vector<std::string> inputs,
                                    size_t results, std::vector<format::Attribute> attributes = {},
                                    std::string result = "") {
    format::Node node;
    node.op = op;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    for (size_t i = 0; i < results; ++i)
      node.outputs.push_back(i == 0 && !result.empty() ? result : Fresh());
    node.name = op + "_" + node.outputs[0];
    out_.nodes.push_back(node);
    return node.outputs;
  }

  std::string Initializer(const HostTensor& host, const std::string& wanted = "") {
    format::Tensor tensor;
    tensor.name = wanted.empty() ? Fresh() : wanted;
    tensor.element = ElementOfDType(host.dtype());
    tensor.dims = host.shape().sizes().vec();
    tensor.bytes.assign(static_cast<const char*>(host.data()), static_cast<size_t>(host.bytes()));
    out_.initializers.push_back(std::move(tensor));
    return out_.initializers.back().name;
  }
  std::string Ints(const std::vector<int64_t>& values) {
    return Initializer(HostTensor::From(values, Dims(static_cast<int64_t>(values.size()))));
  }
  std::string Number(double value, DType dtype) {
    return Initializer(HostTensor::From(Scalar(value).To(dtype)));
  }

  std::string CastTo(const std::string& name, DType from, DType to) {
    if (from == to) return name;
    return Emit("Cast", {name}, {IntOf("to", ElementOfDType(to))});
  }

  static format::Attribute IntOf(const std::string& name, int64_t value) {
    format::Attribute attribute;
    attribute.name = name;
    attribute.kind = format::Attribute::kInt;
    attribute.i = value;
    return attribute;
  }
  static format::Attribute IntsOf(const std::string& name, std::vector<int64_t> values) {
    format::Attribute attribute;
    attribute.name = name;
    attribute.kind = format::Attribute::kInts;
    attribute.ints = std::move(values);
    return attribute;
  }
  static format::Attribute TextOf(const std::string& name, std::string value) {
    format::Attribute attribute;
    attribute.name = name;
    attribute.kind = format::Attribute::kString;
    attribute.s = std::move(value);
    return attribute;
  }

  // ---- sizes that may depend on dim parameters
  Size SizeOf(NodeId id, int output, int dim) const {
    return {graph_[id].types[static_cast<size_t>(output)].size(dim),
            Find(graph_.dim_exprs, {id, output, dim})};
  }
  /// i64[n] of the sizes.
  std::string Sizes(const std::vector<Size>& sizes) {
    bool fixed = std::ranges::none_of(sizes, [](const Size& size) { return size.expr; });
    std::vector<int64_t> values;
    for (const Size& size : sizes) values.push_back(size.value);
    if (fixed) return Ints(values);
    std::vector<std::string> parts;
    for (const Size& size : sizes)
      parts.push_back(size.expr ? Evaluated(*size.expr) : Ints({size.value}));
    return parts.size() == 1 ? parts[0] : Emit("Concat", parts, {IntOf("axis", 0)});
  }
  /// The sizes of a node's result.
  std::string SizesOf(NodeId id) {
    std::vector<Size> sizes;
    for (int d = 0; d < graph_[id].type().rank(); ++d) sizes.push_back(SizeOf(id, 0, d));
    return Sizes(sizes);
  }
  /// An attribute that must not depend on sizes.
  const std::vector<int64_t> FixedInts(NodeId id, std::string_view name) {
    const GraphNode& node = graph_[id];
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      if (&node.attr(name) != &node.attrs[i]) continue;
      auto found = graph_.attr_exprs.lower_bound({id, static_cast<int>(i), 0});
      bool depends = found != graph_.attr_exprs.end() && std::get<0>(found->first) == id &&
                     std::get<1>(found->first) == static_cast<int>(i);
      if (depends) {
        Throw<NotSupported>(ErrorCode::kNotSupported, "its {} depends on a free dim", name);
      }
    }
    auto ints = node.attr(name).ints();
    return {ints.begin(), ints.end()};
  }

 private:
  using Exprs = std::map<std::tuple<NodeId, int, int>, DimExpr>;
  static const DimExpr* Find(const Exprs& exprs, const std::tuple<NodeId, int, int>& key) {
    auto found = exprs.find(key);
    return found == exprs.end() ? nullptr : &found->second;
  }

  std::string Evaluated(const DimExpr& expr) {
    std::string sum;
    for (auto [param, coefficient] : expr.terms) {
      std::string term = Parameter(param);
      if (coefficient != 1) term = Emit("Mul", {term, Ints({coefficient})});
      sum = sum.empty() ? term : Emit("Add", {sum, term});
    }
    return expr.constant == 0 ? sum : Emit("Add", {sum, Ints({expr.constant})});
  }

  /// i64[1], from an input that has it as a size.
  std::string Parameter(int param) {
    std::string& name = parameters_[param];
    if (!name.empty()) return name;
    for (NodeId input : graph_.inputs()) {
      for (int d = 0; d < graph_[input].type().rank(); ++d) {
        const DimExpr* expr = Find(graph_.dim_exprs, {input, 0, d});
        if (!expr || expr->constant != 0 ||
            expr->terms != std::vector{std::pair(param, int64_t{1})})
          continue;
        return name = Emit("Gather", {Emit("Shape", {NameOf({input, 0})}), Ints({d})},
                           {IntOf("axis", 0)});
      }
    }
    Throw<NotSupported>(ErrorCode::kNotSupported, "no input has the free dim by itself");
  }

  const Graph& graph_;
  format::Graph& out_;
  std::map<std::pair<NodeId, int>, std::string> names_;
  std::map<int, std::string> parameters_;
  int next_ = 0;
};

/// One node: names of its operands, cast to one dtype where they are elementwise.
struct Written {
  Writer& w;
  NodeId id;
  const GraphNode& node;

  std::string In(size_t i) const { return w.NameOf(node.inputs.at(i)); }
  const Shape& Type(size_t i) const { return w.graph().TypeOf(node.inputs.at(i)); }
  std::string As(size_t i, DType dtype) const { return w.CastTo(In(i), Type(i).dtype(), dtype); }
  DType dtype() const { return node.type().dtype(); }
  int64_t Int(std::string_view name) const { return node.attr(name).integer(); }
  std::vector<int64_t> Ints(std::string_view name) const { return w.FixedInts(id, name); }
};

using WriteFn = std::string (*)(const Written&);

struct SimpleRow {
  const char* op;
  const char* onnx;
};
/// Elementwise ops of one dtype.
constexpr SimpleRow kSimple[] = {
    {"abs", "Abs"},          {"neg", "Neg"},
    {"sign", "Sign"},        {"floor", "Floor"},
    {"ceil", "Ceil"},        {"round", "Round"},
    {"sqrt", "Sqrt"},        {"reciprocal", "Reciprocal"},
    {"exp", "Exp"},          {"log", "Log"},
    {"sin", "Sin"},          {"cos", "Cos"},
    {"tan", "Tan"},          {"asin", "Asin"},
    {"acos", "Acos"},        {"atan", "Atan"},
    {"sinh", "Sinh"},        {"cosh", "Cosh"},
    {"tanh", "Tanh"},        {"asinh", "Asinh"},
    {"acosh", "Acosh"},      {"atanh", "Atanh"},
    {"erf", "Erf"},          {"sigmoid", "Sigmoid"},
    {"add", "Add"},          {"sub", "Sub"},
    {"mul", "Mul"},          {"div", "Div"},
    {"pow", "Pow"},          {"maximum", "Max"},
    {"minimum", "Min"},      {"relu", "Relu"},
    {"logical_not", "Not"},  {"logical_and", "And"},
    {"logical_or", "Or"},    {"logical_xor", "Xor"},
    {"trunc_divide", "Div"},
};
/// Comparisons, of operands that promote.
constexpr SimpleRow kComparisons[] = {
    {"eq", "Equal"},   {"lt", "Less"},           {"le", "LessOrEqual"},
    {"gt", "Greater"}, {"ge", "GreaterOrEqual"},
};

std::string WriteReduce(const Written& n, const char* op) {
  std::vector<int64_t> dims = n.Ints("dims");
  std::vector<format::Attribute> attributes{
      Writer::IntOf("keepdims", n.node.attr("keepdim").boolean())};
  if (dims.empty()) return n.w.Emit("Identity", {n.In(0)});
  if (std::string_view(op) == "ReduceSum")
    return n.w.Emit(op, {n.In(0), n.w.Ints(dims)}, attributes);
  attributes.push_back(Writer::IntsOf("axes", dims));
  return n.w.Emit(op, {n.In(0)}, attributes);
}

std::string WriteDot(const Written& n) {
  std::vector<int64_t> ac = n.Ints("a_contract"), bc = n.Ints("b_contract");
  std::vector<int64_t> ab = n.Ints("a_batch"), bb = n.Ints("b_batch");
  int ra = n.Type(0).rank(), rb = n.Type(1).rank();
  auto batch = static_cast<int64_t>(ab.size());
  bool leading = ab == bb;
  for (int64_t i = 0; i < batch; ++i) leading &= ab[static_cast<size_t>(i)] == i;
  bool shape = leading && ac == std::vector<int64_t>{ra - 1} && bc.size() == 1 && rb == batch + 2 &&
               (batch == 0 ? ra >= 2 : ra == rb);
  if (shape) {
    std::string b = n.In(1);
    if (bc[0] == rb - 1) {
      std::vector<int64_t> perm;
      for (int i = 0; i < rb; ++i) perm.push_back(i);
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      b = n.w.Emit("Transpose", {b}, {Writer::IntsOf("perm", perm)});
    }
    return n.w.Emit("MatMul", {n.In(0), b});
  }
  std::string a_text(static_cast<size_t>(ra), '?'), b_text(static_cast<size_t>(rb), '?'), out;
  char letter = 'a';
  for (size_t i = 0; i < ab.size(); ++i, ++letter) {
    a_text[static_cast<size_t>(ab[i])] = b_text[static_cast<size_t>(bb[i])] = letter;
    out += letter;
  }
  for (size_t i = 0; i < ac.size(); ++i, ++letter) {
    a_text[static_cast<size_t>(ac[i])] = b_text[static_cast<size_t>(bc[i])] = letter;
  }
  for (std::string* text : {&a_text, &b_text}) {
    for (char& label : *text) {
      if (label == '?') out += label = letter++;
    }
  }
  return n.w.Emit("Einsum", {n.In(0), n.In(1)},
                  {Writer::TextOf("equation", a_text + "," + b_text + "->" + out)});
}

std::string WriteConvolution(const Written& n) {
  std::vector<int64_t> pads = n.Ints("padding");
  size_t rank = pads.size();
  for (size_t i = 0; i < rank; ++i) pads.push_back(pads[i]);
  std::vector<format::Attribute> attributes{
      Writer::IntsOf("strides", n.Ints("stride")), Writer::IntsOf("pads", pads),
      Writer::IntsOf("dilations", n.Ints("dilation")), Writer::IntOf("group", n.Int("groups"))};
  bool transposed = n.node.attr("transposed").boolean();
  if (transposed) attributes.push_back(Writer::IntsOf("output_padding", n.Ints("output_padding")));
  return n.w.Emit(transposed ? "ConvTranspose" : "Conv", {n.In(0), n.In(1)}, attributes);
}

std::string WriteWindow(const Written& n) {
  std::vector<int64_t> window = n.Ints("window"), stride = n.Ints("stride");
  std::vector<int64_t> low = n.Ints("low"), high = n.Ints("high"), dilation = n.Ints("dilation");
  int rank = n.Type(0).rank();
  auto spatial = static_cast<int>(window.size());
  bool max = n.node.attr("kind").str() == "max";
  bool plain = std::ranges::all_of(dilation, [](int64_t d) { return d == 1; });
  if (spatial > 3 || rank > spatial + 2 || (!max && !plain) || !IsFloat(n.dtype())) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "windows of this kind");
  }
  // A batch and channels, where there are none.
  std::vector<int64_t> added;
  for (int i = rank; i < spatial + 2; ++i) added.push_back(i - rank);
  std::string x = n.In(0);
  if (!added.empty()) x = n.w.Emit("Unsqueeze", {x, n.w.Ints(added)});
  std::vector<int64_t> pads = low;
  pads.insert(pads.end(), high.begin(), high.end());
  std::vector<format::Attribute> attributes{Writer::IntsOf("kernel_shape", window),
                                            Writer::IntsOf("strides", stride),
                                            Writer::IntsOf("pads", pads)};
  if (max) {
    attributes.push_back(Writer::IntsOf("dilations", dilation));
    x = n.w.Emit("MaxPool", {x}, attributes);
  } else {
    attributes.push_back(Writer::IntOf("count_include_pad", 1));
    double count = 1;
    for (int64_t size : window) count *= static_cast<double>(size);
    x = n.w.Emit("Mul", {n.w.Emit("AveragePool", {x}, attributes), n.w.Number(count, n.dtype())});
  }
  return added.empty() ? x : n.w.Emit("Squeeze", {x, n.w.Ints(added)});
}

/// `size` elements along a dim from a start, a name of i64[1].
std::string WriteCut(const Written& n, const std::string& start, int64_t dim) {
  int64_t step = n.Int("step");
  std::string size = n.w.Sizes({n.w.SizeOf(n.id, 0, static_cast<int>(dim))});
  std::string span = step == 1 ? size : n.w.Emit("Mul", {size, n.w.Ints({step})});
  std::string end = n.w.Emit("Add", {start, span});
  return n.w.Emit("Slice", {n.In(0), start, end, n.w.Ints({dim}), n.w.Ints({step})});
}

struct Row {
  const char* op;
  WriteFn write;
};
constexpr Row kRows[] = {
    {"ne",
     [](const Written& n) {
       DType dtype = PromoteTypes(n.Type(0).dtype(), n.Type(1).dtype());
       return n.w.Emit("Not", {n.w.Emit("Equal", {n.As(0, dtype), n.As(1, dtype)})});
     }},
    {"isnan", [](const Written& n) { return n.w.Emit("IsNaN", {n.In(0)}); }},
    {"rsqrt",
     [](const Written& n) {
       return n.w.Emit("Reciprocal", {n.w.Emit("Sqrt", {n.As(0, n.dtype())})});
     }},
    {"exp2",
     [](const Written& n) {
       return n.w.Emit("Pow", {n.w.Number(2, n.dtype()), n.As(0, n.dtype())});
     }},
    {"log1p",
     [](const Written& n) {
       return n.w.Emit("Log", {n.w.Emit("Add", {n.As(0, n.dtype()), n.w.Number(1, n.dtype())})});
     }},
    {"expm1",
     [](const Written& n) {
       return n.w.Emit("Sub", {n.w.Emit("Exp", {n.As(0, n.dtype())}), n.w.Number(1, n.dtype())});
     }},
    {"exact_gelu",
     [](const Written& n) {
       std::string x = n.In(0);
       std::string e =
           n.w.Emit("Erf", {n.w.Emit("Mul", {x, n.w.Number(std::sqrt(0.5), n.dtype())})});
       std::string half = n.w.Emit("Mul", {x, n.w.Number(0.5, n.dtype())});
       return n.w.Emit("Mul", {half, n.w.Emit("Add", {e, n.w.Number(1, n.dtype())})});
     }},
    {"fmod",
     [](const Written& n) {
       return n.w.Emit("Mod", {n.As(0, n.dtype()), n.As(1, n.dtype())}, {Writer::IntOf("fmod", 1)});
     }},
    {"remainder",
     [](const Written& n) {
       std::string a = n.As(0, n.dtype()), b = n.As(1, n.dtype());
       if (!IsFloat(n.dtype())) return n.w.Emit("Mod", {a, b});
       std::string whole = n.w.Emit("Floor", {n.w.Emit("Div", {a, b})});
       return n.w.Emit("Sub", {a, n.w.Emit("Mul", {whole, b})});
     }},
    {"where",
     [](const Written& n) {
       return n.w.Emit("Where", {n.In(0), n.As(1, n.dtype()), n.As(2, n.dtype())});
     }},
    {"cast",
     [](const Written& n) {
       return n.w.Emit("Cast", {n.In(0)}, {Writer::IntOf("to", ElementOfDType(n.dtype()))});
     }},
    {"constant",
     [](const Written& n) {
       return n.w.Initializer(HostTensor::From(n.node.attr("value").scalar().To(n.dtype())));
     }},
    {"iota",
     [](const Written& n) {
       std::string size = n.w.Emit("Squeeze", {n.w.SizesOf(n.id), n.w.Ints({0})});
       std::string range =
           n.w.Emit("Range", {n.w.Number(0, DType::kI64), size, n.w.Number(1, DType::kI64)});
       return n.w.CastTo(range, DType::kI64, n.dtype());
     }},
    {"reshape",
     [](const Written& n) {
       return n.w.Emit("Reshape", {n.In(0), n.w.SizesOf(n.id)}, {Writer::IntOf("allowzero", 1)});
     }},
    {"broadcast",
     [](const Written& n) {
       return n.w.Emit("Expand", {n.In(0), n.w.SizesOf(n.id)});
     }},
    {"permute",
     [](const Written& n) {
       return n.w.Emit("Transpose", {n.In(0)}, {Writer::IntsOf("perm", n.Ints("dims"))});
     }},
    {"slice",
     [](const Written& n) { return WriteCut(n, n.w.Ints({n.Int("start")}), n.Int("dim")); }},
    {"dynamic_slice",
     [](const Written& n) {
       std::string start = n.w.Emit("Reshape", {n.As(1, DType::kI64), n.w.Ints({1})});
       return WriteCut(n, start, n.Int("dim"));
     }},
    {"pad_constant",
     [](const Written& n) {
       std::vector<int64_t> pads = n.Ints("low"), high = n.Ints("high");
       pads.insert(pads.end(), high.begin(), high.end());
       return n.w.Emit("Pad", {n.In(0), n.w.Ints(pads), n.As(1, n.dtype())});
     }},
    {"concat",
     [](const Written& n) {
       std::vector<std::string> all;
       for (size_t i = 0; i < n.node.inputs.size(); ++i) all.push_back(n.In(i));
       return n.w.Emit("Concat", all, {Writer::IntOf("axis", n.Int("dim"))});
     }},
    {"flip",
     [](const Written& n) {
       std::vector<int64_t> dims = n.Ints("dims"), last(dims.size(), -1), steps(dims.size(), -1);
       std::vector<int64_t> first(dims.size(), std::numeric_limits<int64_t>::min() + 1);
       if (dims.empty()) return n.w.Emit("Identity", {n.In(0)});
       return n.w.Emit("Slice",
                       {n.In(0), n.w.Ints(last), n.w.Ints(first), n.w.Ints(dims), n.w.Ints(steps)});
     }},
    {"reduce_sum", [](const Written& n) { return WriteReduce(n, "ReduceSum"); }},
    {"reduce_prod", [](const Written& n) { return WriteReduce(n, "ReduceProd"); }},
    {"reduce_max", [](const Written& n) { return WriteReduce(n, "ReduceMax"); }},
    {"reduce_min", [](const Written& n) { return WriteReduce(n, "ReduceMin"); }},
    {"arg_max",
     [](const Written& n) {
       return n.w.Emit("ArgMax", {n.In(0)},
                       {Writer::IntOf("axis", n.Int("dim")),
                        Writer::IntOf("keepdims", n.node.attr("keepdim").boolean())});
     }},
    {"arg_min",
     [](const Written& n) {
       return n.w.Emit("ArgMin", {n.In(0)},
                       {Writer::IntOf("axis", n.Int("dim")),
                        Writer::IntOf("keepdims", n.node.attr("keepdim").boolean())});
     }},
    {"softmax",
     [](const Written& n) {
       return n.w.Emit("Softmax", {n.In(0)}, {Writer::IntOf("axis", n.Int("dim"))});
     }},
    {"log_softmax",
     [](const Written& n) {
       return n.w.Emit("LogSoftmax", {n.In(0)}, {Writer::IntOf("axis", n.Int("dim"))});
     }},
    {"reduce_window", WriteWindow},
    {"gather",
     [](const Written& n) {
       return n.w.Emit("GatherElements", {n.In(0), n.In(1)}, {Writer::IntOf("axis", n.Int("dim"))});
     }},
    {"index_select",
     [](const Written& n) {
       return n.w.Emit("Gather", {n.In(0), n.In(1)}, {Writer::IntOf("axis", n.Int("dim"))});
     }},
    {"dot_general", WriteDot},
    {"convolution", WriteConvolution},
};

/// The name of the first result; nothing where no row is for the op.
std::optional<std::string> Write(Writer& w, NodeId id) {
  const GraphNode& node = w.graph()[id];
  Written n{w, id, node};
  std::string_view op = node.op->name();
  for (const SimpleRow& row : kSimple) {
    if (op != row.op) continue;
    std::vector<std::string> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(n.As(i, n.dtype()));
    return w.Emit(row.onnx, inputs);
  }
  for (const SimpleRow& row : kComparisons) {
    if (op != row.op) continue;
    DType dtype = PromoteTypes(n.Type(0).dtype(), n.Type(1).dtype());
    return w.Emit(row.onnx, {n.As(0, dtype), n.As(1, dtype)});
  }
  for (const Row& row : kRows) {
    if (op == row.op) return row.write(n);
  }
  return std::nullopt;
}

format::ValueInfo InfoOf(const Graph& graph, GraphValue value, const std::string& name,
                         const std::map<int, std::string>& dims) {
  format::ValueInfo info{name, {}};
  const Shape& type = graph.TypeOf(value);
  info.type.kind = format::Type::kTensor;
  info.type.element = ElementOfDType(type.dtype());
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

}  // namespace

void save(const Module& module, const std::string& path, int opset, Location at) {
  LocationScope scope(at);
  constexpr int kOldest = 14, kNewest = 17;
  if (opset < kOldest || opset > kNewest) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: save: opset {}; {} to {} are written",
                        opset, kOldest, kNewest);
  }
  const GraphBody& body = module.graph_body("forward");
  if (!body.writes.empty()) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: save: `forward` writes to the module");
  }
  Graph graph = Prepared(*body.graph, "onnx: save");
  format::Model model;
  model.ir_version = 8;
  model.producer_name = "hammock";
  model.opsets.push_back({"", opset});
  model.graph.name = module.class_name();
  Writer writer(graph, model.graph);
  std::map<int, std::string> dims;
  for (size_t i = 0; i < graph.dim_params.size(); ++i) {
    dims[static_cast<int>(i)] = graph.dim_params[i].name;
  }
  const auto& arguments = module.method("forward").schema.arguments();
  std::vector<DeclaredValue> declared = inputs(module), results = outputs(module);
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    GraphValue value{graph.inputs()[i], 0};
    if (i < body.num_arguments()) {
      bool one_each = arguments.size() == body.num_arguments();
      std::string name = i < declared.size() ? declared[i].name
                         : one_each          ? arguments[i].name
                                             : fmt::format("x{}", i);
      writer.SetName(value, name);
      model.graph.inputs.push_back(InfoOf(graph, value, name, dims));
      continue;
    }
    const Capture& capture = body.captures.at(i - body.num_arguments());
    if (capture.random_blocks > 0) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: save: `forward` draws random numbers");
    }
    Tensor tensor = capture.name.empty() ? capture.constant : module.get_tensor(capture.name);
    writer.SetName(value, writer.Initializer(tensor.host(), capture.name));
  }
  std::map<std::string, int> missing;
  for (NodeId id : graph.ids()) {
    if (graph[id].op == &ops::kInput) continue;
    std::string reason;
    std::optional<std::string> name;
    try {
      name = Write(writer, id);
    } catch (const NotSupported& error) {
      reason = fmt::format(" ({})", error.message());
    }
    if (!name) ++missing[graph[id].op->name() + reason];
    // Those behind a missing one are looked at too.
    for (size_t i = 0; i < graph[id].types.size(); ++i) {
      writer.SetName({id, static_cast<int>(i)}, name.value_or("missing"));
    }
  }
  if (!missing.empty()) {
    std::string text;
    for (const auto& [op, count] : missing) text += fmt::format("\n  {}: {}", op, count);
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: save: ops that are not written:{}", text);
  }
  std::set<std::string> taken;
  for (size_t i = 0; i < body.num_results(); ++i) {
    GraphValue value = graph.outputs()[i];
    std::string name = i < results.size() ? results[i].name : fmt::format("y{}", i);
    while (!taken.insert(name).second) name += "_";
    writer.Emit("Identity", {writer.NameOf(value)}, {}, name);
    model.graph.outputs.push_back(InfoOf(graph, value, name, dims));
  }
  std::string bytes = WriteModel(model);
  const std::string_view parts[] = {bytes};
  WriteWholeFile(path, parts);
}

}  // namespace hammock::onnx
