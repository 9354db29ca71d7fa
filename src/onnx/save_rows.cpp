/// The table from primitives to operators of ONNX.

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/passes/expand.h"
#include "compiler/sizes/generalise.h"
#include "hammock/ir/storage_types.h"
#include "ir/graph_sizes.h"
#include "ir/primitives.h"
#include "onnx/save_forms.h"

namespace hammock::onnx {
namespace {

/// Composites that ONNX has too.
bool IsKept(const OpDef& op) {
  std::string_view name = op.name();
  return name == "relu" || name == "softmax" || name == "log_softmax" || name == "int_matmul" ||
         name == "int_convolution" || name == "quantize" || name == "conj";
}

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
    {"_gelu",
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
       std::string a = n.As(1, n.dtype()), b = n.As(2, n.dtype());
       if (n.dtype() != DType::kBool) return n.w.Emit("Where", {n.In(0), a, b});
       // ONNX Runtime has none for bools.
       std::string no = n.w.Emit("Not", {n.In(0)});
       return n.w.Emit("Or", {n.w.Emit("And", {n.In(0), a}), n.w.Emit("And", {no, b})});
     }},
    {"cast", [](const Written& n) { return n.w.CastTo(n.In(0), n.Type(0).dtype(), n.dtype()); }},
    {"constant",
     [](const Written& n) {
       if (n.w.AttrExpr(n.id, "value")) {  // a mean's number of elements, say
         std::string size = n.w.Emit("Squeeze", {n.SizeAttr("value"), n.w.Ints({0})});
         return n.w.CastTo(size, DType::kI64, n.dtype());
       }
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
    {"slice", [](const Written& n) { return WriteCut(n, n.SizeAttr("start"), n.Int("dim")); }},
    {"as_strided", WriteStrided},
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
    {"barrier", [](const Written& n) { return n.w.Emit("Identity", {n.In(0)}); }},
    {"require", [](const Written& n) { return n.w.Emit("Identity", {n.In(0)}); }},
    {"trunc",
     [](const Written& n) {
       std::string x = n.As(0, n.dtype());
       return n.w.Emit("Mul", {n.w.Emit("Sign", {x}), n.w.Emit("Floor", {n.w.Emit("Abs", {x})})});
     }},
    {"floor_divide",
     [](const Written& n) {
       std::string a = n.As(0, n.dtype()), b = n.As(1, n.dtype());
       if (IsFloat(n.dtype())) return n.w.Emit("Floor", {n.w.Emit("Div", {a, b})});
       std::string rest = n.w.Emit("Mod", {a, b});  // has the sign of the divisor
       return n.w.Emit("Div", {n.w.Emit("Sub", {a, rest}), b});
     }},
    {"log2",
     [](const Written& n) {
       return n.w.Emit(
           "Div", {n.w.Emit("Log", {n.As(0, n.dtype())}), n.w.Number(std::log(2.0), n.dtype())});
     }},
    {"log10",
     [](const Written& n) {
       return n.w.Emit(
           "Div", {n.w.Emit("Log", {n.As(0, n.dtype())}), n.w.Number(std::log(10.0), n.dtype())});
     }},
    {"erfc",
     [](const Written& n) {
       return n.w.Emit("Sub", {n.w.Number(1, n.dtype()), n.w.Emit("Erf", {n.As(0, n.dtype())})});
     }},
    {"hypot",
     [](const Written& n) {
       std::string a = n.As(0, n.dtype()), b = n.As(1, n.dtype());
       return n.w.Emit("Sqrt",
                       {n.w.Emit("Add", {n.w.Emit("Mul", {a, a}), n.w.Emit("Mul", {b, b})})});
     }},
    {"fmax", [](const Written& n) { return WriteSkippingNan(n, "Max"); }},
    {"fmin", [](const Written& n) { return WriteSkippingNan(n, "Min"); }},
    {"bitwise_and", [](const Written& n) { return WriteBits(n, "And"); }},
    {"bitwise_or", [](const Written& n) { return WriteBits(n, "Or"); }},
    {"bitwise_xor", [](const Written& n) { return WriteBits(n, "Xor"); }},
    {"bitwise_not", [](const Written& n) { return WriteBits(n, "Not"); }},
    {"reduce_any", [](const Written& n) { return WriteTruth(n, "ReduceMax"); }},
    {"reduce_all", [](const Written& n) { return WriteTruth(n, "ReduceMin"); }},
    {"scan", WriteScan},
    {"scatter", WriteScatter},
    {"update_slice", [](const Written& n) { return WriteUpdate(n, n.SizeAttr("start")); }},
    {"dynamic_update_slice",
     [](const Written& n) {
       return WriteUpdate(n, n.w.Emit("Reshape", {n.As(2, DType::kI64), n.w.Ints({1})}));
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
    {"quantize", WriteQuantize},
    {"int_matmul", WriteIntMatmul},
    {"int_convolution", WriteIntConvolution},
};

struct ManyRow {
  const char* op;
  std::vector<std::string> (*write)(const Written&);
};
constexpr ManyRow kManyRows[] = {
    {"cond", WriteCond},
    {"loop", WriteLoop},
    {"sort",
     [](const Written& n) {
       std::string size = n.w.Sizes({n.w.SizeOf(n.id, 0, static_cast<int>(n.Int("dim")))});
       return WriteTopK(n, size, n.node.attr("descending").boolean(), true);
     }},
    {"topk",
     [](const Written& n) {
       std::string size = n.w.Sizes({n.w.SizeOf(n.id, 0, static_cast<int>(n.Int("dim")))});
       return WriteTopK(n, size, n.node.attr("largest").boolean(), n.node.attr("sorted").boolean());
     }},
    {"while", WriteWhile},
};

/// ONNX casts elements of storage types, and moves them by a few operators.
void CheckStorage(const Written& n) {
  constexpr std::string_view kMoves[] = {"cast", "reshape", "permute", "barrier",
                                         "cond", "loop",    "while"};
  std::vector<Shape> types(n.node.types.begin(), n.node.types.end());
  for (size_t i = 0; i < n.node.inputs.size(); ++i) {
    if (n.node.inputs[i].node) types.push_back(n.Type(i));
  }
  auto stored = std::ranges::find_if(types, [](const Shape& t) { return IsStorage(t.dtype()); });
  if (stored == types.end()) return;
  const std::string_view op = n.node.op->name();
  constexpr int kPermuted = 21;
  if (std::ranges::count(kMoves, op) == 0) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "of {}", NameOf(stored->dtype()));
  }
  if (op == "permute" && n.w.naming().opset < kPermuted) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "opset {} has it for {}", kPermuted,
                        NameOf(stored->dtype()));
  }
}

/// Names of all results; nothing where no row is for the op.
std::vector<std::string> Write(Writer& w, NodeId id) {
  const GraphNode& node = w.graph()[id];
  Written n{w, id, node};
  CheckStorage(n);
  std::string_view op = node.op->name();
  if (std::optional<std::string> pairs = WriteComplex(n)) return {*pairs};
  for (const SimpleRow& row : kSimple) {
    if (op != row.op) continue;
    std::vector<std::string> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(n.As(i, n.dtype()));
    return {w.Emit(row.onnx, inputs)};
  }
  for (const SimpleRow& row : kComparisons) {
    if (op != row.op) continue;
    DType dtype = PromoteTypes(n.Type(0).dtype(), n.Type(1).dtype());
    return {w.Emit(row.onnx, {n.As(0, dtype), n.As(1, dtype)})};
  }
  for (const Row& row : kRows) {
    if (op == row.op) return {row.write(n)};
  }
  for (const ManyRow& row : kManyRows) {
    if (op == row.op) return row.write(n);
  }
  return {};
}

}  // namespace

int32_t ElementAt(int opset, DType dtype) {
  const int bits = InfoOf(dtype).bits;
  const int first = !IsStorage(dtype) ? 0 : bits == 8 ? 19 : bits == 4 ? 21 : 25;
  if (opset < first) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "onnx: save: opset {} has {}", first,
                        NameOf(dtype));
  }
  return ElementOfDType(dtype);
}

Graph Prepared(const Graph& graph, const std::string& what) {
  auto keep = [](const Graph& g, NodeId id) { return IsKept(*g[id].op); };
  if (graph.dim_params.empty()) return ExpandComposites(graph, keep);
  std::vector<int64_t> sizes;
  for (const DimParam& param : graph.dim_params) sizes.push_back(param.value);
  std::vector<Graph> samples;
  for (const auto& sample : SampleSizes(sizes)) {
    samples.push_back(ExpandComposites(AtSizes(graph, sample), keep));
  }
  return GeneralGraph(what, samples);
}

void WriteNodes(Writer& writer) {
  const Graph& graph = writer.graph();
  for (NodeId id : graph.ids()) {
    if (graph[id].op == &ops::kInput) continue;
    std::string reason;
    std::vector<std::string> names;
    try {
      names = Write(writer, id);
    } catch (const NotSupported& error) {
      reason = fmt::format(" ({})", error.message());
    }
    if (names.empty()) ++writer.naming().missing[graph[id].op->name() + reason];
    // Nodes that depend on a missing one are written too, so that all missing ops are found.
    names.resize(graph[id].types.size(), "missing");
    for (size_t i = 0; i < names.size(); ++i) {
      writer.SetName({id, static_cast<int>(i)}, names[i]);
    }
  }
}

}  // namespace hammock::onnx
