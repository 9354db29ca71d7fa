#include "onnx/save_forms.h"

#include <algorithm>
#include <limits>

#include "base/throw.h"
#include "ir/storage.h"
#include "ops/nn/quantize.h"

namespace hammock::onnx {

/// Axes are an input from opset 18 on, those of sums from 13 on.
std::string ReduceOver(const Written& n, const std::string& op, const std::string& x) {
  constexpr int kInputs = 18;
  std::vector<int64_t> dims = n.Ints("dims");
  std::vector<format::Attribute> attributes{
      Writer::IntOf("keepdims", n.node.attr("keepdim").boolean())};
  if (dims.empty()) return n.w.Emit("Identity", {x});
  if (op == "ReduceSum" || n.w.naming().opset >= kInputs) {
    return n.w.Emit(op, {x, n.w.Ints(dims)}, attributes);
  }
  attributes.push_back(Writer::IntsOf("axes", dims));
  return n.w.Emit(op, {x}, attributes);
}

std::string WriteReduce(const Written& n, const char* op) { return ReduceOver(n, op, n.In(0)); }

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

namespace {

std::vector<format::Attribute> WindowsOf(const Written& n) {
  std::vector<int64_t> pads = n.Ints("padding");
  size_t rank = pads.size();
  for (size_t i = 0; i < rank; ++i) pads.push_back(pads[i]);
  return {Writer::IntsOf("strides", n.Ints("stride")), Writer::IntsOf("pads", pads),
          Writer::IntsOf("dilations", n.Ints("dilation")), Writer::IntOf("group", n.Int("groups"))};
}

/// Operands of bytes, and their zero points: a number, or one for each row, column or filter. Those
/// of stacks of matrices keep their dims, as the standard has them.
std::vector<std::string> WithZeroPoints(const Written& n) {
  std::vector<std::string> inputs{n.In(0), n.In(1)};
  for (size_t i : {2, 3}) {
    inputs.emplace_back();
    if (!n.node.inputs[i].node) continue;
    inputs.back() = n.As(i, n.Type(i - 2).dtype());
    const Shape& zero = n.Type(i);
    const bool of_stack = n.node.op->name() == std::string_view("int_matmul") && zero.rank() > 2;
    if (zero.numel() == 1 || !of_stack) inputs.back() = n.w.Emit("Squeeze", {inputs.back()});
  }
  return inputs;
}

}  // namespace

std::string WriteQuantize(const Written& n) {
  const Shape &x = n.Type(0), &scale = n.Type(1);
  if (IsStorage(n.dtype())) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "results of {}", NameOf(n.dtype()));
  }
  for (int i = 1; i <= scale.rank(); ++i) {
    const int64_t blocks = scale.size(scale.rank() - i);
    if (blocks == 1 || blocks == x.size(x.rank() - i)) continue;
    Throw<NotSupported>(ErrorCode::kNotSupported, "scales of blocks");
  }
  const DType wide = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  std::string ratio = n.w.Emit("Div", {n.As(0, wide), n.As(1, wide)});
  ratio = n.w.Emit("Where", {n.w.Emit("IsNaN", {ratio}), n.w.Number(0, wide), ratio});
  std::string steps = n.w.Emit("Round", {ratio});
  if (n.node.inputs[2].node) steps = n.w.Emit("Add", {steps, n.As(2, wide)});
  steps = n.w.Emit("Clip", {steps, n.w.Number(InfoOf(n.dtype()).lowest, wide),
                            n.w.Number(ops::HighestStep(n.dtype(), wide), wide)});
  return n.w.CastTo(steps, wide, n.dtype());
}

std::string WriteIntMatmul(const Written& n) {
  return n.w.Emit("MatMulInteger", WithZeroPoints(n));
}

std::string WriteIntConvolution(const Written& n) {
  return n.w.Emit("ConvInteger", WithZeroPoints(n), WindowsOf(n));
}

std::string WriteConvolution(const Written& n) {
  std::vector<format::Attribute> attributes = WindowsOf(n);
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

/// Overlapping frames and the like: positions of the flattened operand, as a constant.
std::string WriteStrided(const Written& n) {
  constexpr int64_t kMostPositions = 1 << 22;
  const std::vector<int64_t> sizes = n.Ints("sizes"), strides = n.Ints("strides");
  std::vector<int64_t> positions{n.Int("offset")};
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<int64_t> next;
    if (static_cast<int64_t>(positions.size()) > kMostPositions / std::max<int64_t>(sizes[d], 1)) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "more than {} elements", kMostPositions);
    }
    for (int64_t position : positions) {
      for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(position + i * strides[d]);
    }
    positions = std::move(next);
  }
  std::string index = n.w.Initializer(HostTensor::From(positions, Dims(sizes)));
  return n.w.Emit("Gather", {n.w.Emit("Reshape", {n.In(0), n.w.Ints({-1})}), index},
                  {Writer::IntOf("axis", 0)});
}

/// The other operand where one is NaN.
std::string WriteSkippingNan(const Written& n, const char* op) {
  std::string a = n.As(0, n.dtype()), b = n.As(1, n.dtype());
  std::string best = n.w.Emit(op, {a, b});
  if (!IsFloat(n.dtype())) return best;
  std::string right = n.w.Emit("Where", {n.w.Emit("IsNaN", {b}), a, best});
  return n.w.Emit("Where", {n.w.Emit("IsNaN", {a}), b, right});
}

/// Of bools logical; of integers there are such operators from opset 18 on.
std::string WriteBits(const Written& n, const std::string& op) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < n.node.inputs.size(); ++i) inputs.push_back(n.As(i, n.dtype()));
  if (n.dtype() == DType::kBool) return n.w.Emit(op, inputs);
  constexpr int kFirst = 18;
  if (n.w.naming().opset < kFirst) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "opset {} has bitwise operators", kFirst);
  }
  return n.w.Emit("Bitwise" + op, inputs);
}

std::string WriteTruth(const Written& n, const char* op) {
  std::string numbers = n.w.CastTo(n.In(0), n.Type(0).dtype(), DType::kI32);
  std::string reduced = ReduceOver(n, op, numbers);
  return n.w.CastTo(reduced, DType::kI32, DType::kBool);
}

/// Sums, and products from opset 26 on: ONNX has no other.
std::string WriteScan(const Written& n) {
  constexpr int kProducts = 26;
  const std::string& kind = n.node.attr("kind").str();
  const bool product = kind == "prod" && n.w.naming().opset >= kProducts;
  if (kind != "sum" && !product) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "kind {}", kind);
  }
  return n.w.Emit(product ? "CumProd" : "CumSum",
                  {n.As(0, n.dtype()), n.w.Number(static_cast<double>(n.Int("dim")), DType::kI64)},
                  {Writer::IntOf("reverse", n.node.attr("reverse").boolean())});
}

std::string WriteScatter(const Written& n) {
  std::string how = n.node.attr("reduce").str();
  std::vector<format::Attribute> attributes{Writer::IntOf("axis", n.Int("dim"))};
  if (how != "none") {
    bool extreme = how == "amax" || how == "amin";
    int first = extreme ? 18 : 16;
    if (n.w.naming().opset < first) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "opset {} has reduction {}", first, how);
    }
    attributes.push_back(Writer::TextOf("reduction", how == "sum"    ? "add"
                                                     : how == "prod" ? "mul"
                                                     : how == "amax" ? "max"
                                                                     : "min"));
  }
  // Sources may be larger than the index, in PyTorch and here.
  std::string source = n.As(2, n.dtype());
  if (n.Type(2).sizes() != n.Type(1).sizes()) {
    std::vector<int64_t> zeros, ends, axes;
    for (int d = 0; d < n.Type(1).rank(); ++d) {
      zeros.push_back(0);
      ends.push_back(n.Type(1).size(d));
      axes.push_back(d);
    }
    source = n.w.Emit("Slice", {source, n.w.Ints(zeros), n.w.Ints(ends), n.w.Ints(axes)});
  }
  return n.w.Emit("ScatterElements", {n.In(0), n.In(1), source}, attributes);
}

/// The parts before and after what is written, around it.
std::string WriteUpdate(const Written& n, const std::string& start) {
  if (n.Int("step") != 1) Throw<NotSupported>(ErrorCode::kNotSupported, "a step");
  int64_t dim = n.Int("dim");
  std::string axis = n.w.Ints({dim}), last = n.w.Ints({std::numeric_limits<int64_t>::max()});
  GraphValue source = n.node.inputs[1];
  std::string size = n.w.Sizes({n.w.SizeOf(source.node, source.index, static_cast<int>(dim))});
  std::string before = n.w.Emit("Slice", {n.In(0), n.w.Ints({0}), start, axis});
  std::string after = n.w.Emit("Slice", {n.In(0), n.w.Emit("Add", {start, size}), last, axis});
  return n.w.Emit("Concat", {before, n.As(1, n.dtype()), after}, {Writer::IntOf("axis", dim)});
}

// ---- several results, and graphs inside

std::vector<std::string> WriteTopK(const Written& n, const std::string& count, bool largest,
                                   bool sorted) {
  return n.w.EmitMany("TopK", {n.In(0), count}, 2,
                      {Writer::IntOf("axis", n.Int("dim")), Writer::IntOf("largest", largest),
                       Writer::IntOf("sorted", sorted)});
}

namespace {

/// Appends a graph's nodes where the writer's go, with these names for its inputs.
std::vector<std::string> Inlined(const Graph& graph, format::Graph& out, Naming& naming,
                                 const std::vector<std::string>& names) {
  Graph prepared = Prepared(graph, "onnx: save");
  Writer inner(prepared, out, naming);
  for (size_t i = 0; i < prepared.inputs().size(); ++i) {
    inner.SetName({prepared.inputs()[i], 0}, names.at(i));
  }
  WriteNodes(inner);
  std::vector<std::string> results;
  for (GraphValue value : prepared.outputs()) results.push_back(inner.NameOf(value));
  return results;
}

format::ValueInfo TypeInfo(const std::string& name, DType dtype) {
  format::ValueInfo info{name, {}};
  info.type.kind = format::Type::kTensor;
  info.type.element = ElementOfDType(dtype);
  return info;
}

/// Of rank 0, as loops want their first two inputs.
format::ValueInfo ScalarInfo(const std::string& name, DType dtype) {
  format::ValueInfo info = TypeInfo(name, dtype);
  info.type.has_shape = true;
  return info;
}

/// A graph's own results: a name that is an input, or of another graph, is given another.
void AddResult(Writer& inside, const std::string& name, DType dtype) {
  inside.out().outputs.push_back(TypeInfo(inside.Emit("Identity", {name}), dtype));
}

format::Attribute GraphOf(const std::string& name, format::Graph graph) {
  format::Attribute attribute;
  attribute.name = name;
  attribute.kind = format::Attribute::kGraph;
  graph.name = name;
  attribute.graphs.push_back(std::make_shared<format::Graph>(std::move(graph)));
  return attribute;
}

std::vector<std::string> InputsFrom(const Written& n, size_t first, size_t count) {
  std::vector<std::string> names;
  for (size_t i = first; i < first + count; ++i) names.push_back(n.In(i));
  return names;
}

}  // namespace

std::vector<std::string> WriteCond(const Written& n) {
  std::vector<std::string> operands = InputsFrom(n, 1, n.node.inputs.size() - 1);
  auto branch = [&](std::string_view attribute, const char* name) {
    format::Graph graph;
    Writer inside(n.w.graph(), graph, n.w.naming());
    std::vector<std::string> results =
        Inlined(n.node.attr(attribute).graph(), graph, n.w.naming(), operands);
    for (size_t i = 0; i < results.size(); ++i) {
      AddResult(inside, results[i], n.node.types[i].dtype());
    }
    return GraphOf(name, std::move(graph));
  };
  return n.w.EmitMany("If", {n.In(0)}, n.node.types.size(),
                      {branch("then", "then_branch"), branch("otherwise", "else_branch")});
}

/// Carried values are named by the body; it takes what does not change from around it.
std::vector<std::string> WriteLoop(const Written& n) {
  const Graph& body = n.node.attr("body").graph();
  auto carried = static_cast<size_t>(n.Int("num_carried"));
  auto stacked = static_cast<size_t>(n.Int("num_stacked_in"));
  format::Graph graph;
  Writer inside(n.w.graph(), graph, n.w.naming());
  std::string index = n.w.Fresh(), go = n.w.Fresh();
  graph.inputs = {ScalarInfo(index, DType::kI64), ScalarInfo(go, DType::kBool)};
  std::vector<std::string> names{index};
  for (size_t i = 0; i < carried; ++i) {
    names.push_back(n.w.Fresh());
    graph.inputs.push_back(TypeInfo(names.back(), n.Type(i).dtype()));
  }
  for (size_t i = carried; i < carried + stacked; ++i) {
    names.push_back(inside.Emit("Gather", {n.In(i), index}, {Writer::IntOf("axis", 0)}));
  }
  for (size_t i = carried + stacked; i < n.node.inputs.size(); ++i) names.push_back(n.In(i));
  std::vector<std::string> results = Inlined(body, graph, n.w.naming(), names);
  AddResult(inside, go, DType::kBool);
  for (size_t i = 0; i < results.size(); ++i) {
    AddResult(inside, results[i], n.node.types[i].dtype());
  }
  std::vector<std::string> inputs{n.w.Number(static_cast<double>(n.Int("count")), DType::kI64), ""};
  for (const std::string& name : InputsFrom(n, 0, carried)) inputs.push_back(name);
  return n.w.EmitMany("Loop", inputs, n.node.types.size(), {GraphOf("body", std::move(graph))});
}

std::vector<std::string> WriteWhile(const Written& n) {
  const Graph &condition = n.node.attr("condition").graph(), &body = n.node.attr("body").graph();
  std::vector<std::string> state = InputsFrom(n, 0, n.node.inputs.size());
  std::string starts = Inlined(condition, n.w.out(), n.w.naming(), state).at(0);
  format::Graph graph;
  Writer inside(n.w.graph(), graph, n.w.naming());
  graph.inputs = {ScalarInfo(n.w.Fresh(), DType::kI64), ScalarInfo(n.w.Fresh(), DType::kBool)};
  std::vector<std::string> names;
  for (size_t i = 0; i < state.size(); ++i) {
    names.push_back(n.w.Fresh());
    graph.inputs.push_back(TypeInfo(names.back(), n.Type(i).dtype()));
  }
  std::vector<std::string> results = Inlined(body, graph, n.w.naming(), names);
  AddResult(inside, Inlined(condition, graph, n.w.naming(), results).at(0), DType::kBool);
  for (size_t i = 0; i < results.size(); ++i) {
    AddResult(inside, results[i], n.node.types[i].dtype());
  }
  std::vector<std::string> inputs{"", starts};
  inputs.insert(inputs.end(), state.begin(), state.end());
  return n.w.EmitMany("Loop", inputs, state.size(), {GraphOf("body", std::move(graph))});
}

}  // namespace hammock::onnx
