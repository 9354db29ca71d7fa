#include "hammock/ir/graph.h"

#include <utility>

#include "base/throw.h"
#include "ir/graph_access.h"
#include "ir/id_format.h"
#include "ir/text.h"

namespace hammock {
namespace {

// Nodes, outputs and dim parameters of a graph, in one order for its hash and its words. A sink has
// Op, Attribute, Text and Word.
template <class Sink>
void DescribeType(const Shape& type, Sink& sink) {
  sink.Word(static_cast<uint64_t>(type.dtype()) | static_cast<uint64_t>(type.rank()) << 8);
  for (int64_t size : type.sizes()) sink.Word(static_cast<uint64_t>(size));
}

template <class Sink>
void DescribeValue(GraphValue value, Sink& sink) {
  sink.Word(static_cast<uint64_t>(static_cast<uint32_t>(value.node.number())) |
            static_cast<uint64_t>(static_cast<uint32_t>(value.index)) << 32);
}

template <class Sink>
void DescribeExprs(const std::map<std::tuple<NodeId, int, int>, DimExpr>& exprs, Sink& sink) {
  sink.Word(exprs.size());
  for (const auto& [key, expr] : exprs) {
    auto [node, which, position] = key;
    sink.Word(static_cast<uint64_t>(node.number()));
    sink.Word(static_cast<uint64_t>(which));
    sink.Word(static_cast<uint64_t>(position));
    sink.Word(static_cast<uint64_t>(expr.constant));
    sink.Word(expr.terms.size());
    for (auto [parameter, coefficient] : expr.terms) {
      sink.Word(static_cast<uint64_t>(parameter));
      sink.Word(static_cast<uint64_t>(coefficient));
    }
  }
}

template <class Sink>
void Describe(const Graph& graph, Sink& sink) {
  sink.Word(static_cast<uint64_t>(graph.size()));
  for (const GraphNode& node : graph.nodes()) {
    sink.Op(*node.op);
    sink.Word(node.inputs.size());
    for (GraphValue input : node.inputs) DescribeValue(input, sink);
    sink.Word(node.attrs.size());
    for (const Attr& attr : node.attrs) sink.Attribute(attr);
    sink.Word(node.types.size());
    for (const Shape& type : node.types) DescribeType(type, sink);
  }
  sink.Word(graph.outputs().size());
  for (GraphValue output : graph.outputs()) DescribeValue(output, sink);
  sink.Word(graph.dim_params.size());
  for (const DimParam& param : graph.dim_params) {
    sink.Text(param.name);
    sink.Word(static_cast<uint64_t>(param.value));
  }
  DescribeExprs(graph.dim_exprs, sink);
  DescribeExprs(graph.attr_exprs, sink);
}

struct HashSink {
  Hash128 hash = HashOf(0);
  void Word(uint64_t word) { hash = Combine(hash, word); }
  void Text(std::string_view text) { hash = Combine(hash, HashString(text)); }
  void Op(const OpDef& op) { hash = Combine(hash, op.info().seed); }
  void Attribute(const Attr& attr) { hash = Combine(hash, attr.hash()); }
};

struct WordSink {
  std::vector<uint64_t>& words;
  void Word(uint64_t word) { words.push_back(word); }
  void Text(std::string_view text) { AppendStringWords(words, text); }
  void Op(const OpDef& op) { AppendStringWords(words, op.info().name); }
  void Attribute(const Attr& attr) { attr.AppendBytes(words); }
};

bool SameNode(const GraphNode& a, const GraphNode& b) {
  return a.op == b.op && a.inputs == b.inputs && a.types == b.types && a.attrs == b.attrs;
}

void AppendTerm(std::string& out, int64_t coefficient, std::string_view name) {
  if (coefficient >= 0 && !out.empty()) out += '+';
  if (coefficient == -1) out += '-';
  if (coefficient != 1 && coefficient != -1) {
    fmt::format_to(std::back_inserter(out), "{}*", coefficient);
  }
  out += name;
}

}  // namespace

void AppendGraphWords(std::vector<uint64_t>& out, const Graph& graph) {
  WordSink sink{out};
  Describe(graph, sink);
}

const OpDef& InputOp() {
  static const OpDef& input = op_registry::Get("input");
  return input;
}

const OpDef& ConstantOp() {
  static const OpDef& constant = op_registry::Get("constant");
  return constant;
}

bool TypeIsGiven(const OpDef& op) {
  return op.info().operand_args.empty() && op.info().attribute_args.empty() &&
         (op.info().name == "input" || op.info().name == "device_data" ||
          op.info().name == "scalar");
}

bool IsDimName(std::string_view name) {
  constexpr std::string_view kWords[] = {"none", "true",   "false",   "inf",  "inverse",
                                         "nan",  "floats", "strings", "graph"};
  for (std::string_view word : kWords) {
    if (name == word) return false;
  }
  return IsIdentifier(name) && !DTypeFromName(name);
}

const Attr& GraphNode::attr(std::string_view name) const {
  int index = op->info().AttributeIndex(name);
  HAMMOCK_CHECK(index >= 0 && index < static_cast<int>(attrs.size()), "{} has no attribute '{}'",
                op->name(), name);
  return attrs[index];
}

int64_t DimExpr::Evaluate(const std::vector<int64_t>& parameters) const {
  int64_t sum = constant;
  for (auto [parameter, coefficient] : terms) {
    HAMMOCK_CHECK(parameter >= 0 && parameter < static_cast<int>(parameters.size()),
                  "dim parameter {} of {}", parameter, parameters.size());
    int64_t product = 0;
    if (__builtin_mul_overflow(coefficient, parameters[parameter], &product) ||
        __builtin_add_overflow(sum, product, &sum)) {
      Throw(ErrorCode::kSizeOverflow, "dim expression: {} * {} overflows", coefficient,
            parameters[parameter]);
    }
  }
  return sum;
}

std::string DimExpr::to_string(const std::vector<std::string>& names) const {
  std::string out;
  for (auto [parameter, coefficient] : terms) AppendTerm(out, coefficient, names.at(parameter));
  if (terms.empty()) return std::to_string(constant);
  if (constant != 0) fmt::format_to(std::back_inserter(out), "{:+}", constant);
  return out;
}

GraphValue Graph::AddInput(const Shape& type) {
  GraphNode node;
  node.op = &InputOp();
  node.types = {type};
  return {Append(std::move(node)), 0};
}

GraphValue Graph::AddConstant(const Scalar& value) {
  // The value in its widest form; the dtype says what it becomes.
  Scalar wide = value;
  if (value.IsFloating()) wide = Scalar(value.ToDouble());
  if (value.IsInt() && value.dtype() != DType::kU64) wide = Scalar(value.ToInt());
  return {AddNode(ConstantOp(), {}, {wide, value.dtype()}), 0};
}

NodeId Graph::AddNode(const OpDef& op, SharedList<GraphValue> inputs, SharedList<Attr> attrs,
                      LocationId location) {
  std::vector<const Shape*> types;
  types.reserve(inputs.size());
  for (GraphValue input : inputs) {
    if (!input.node) {
      types.push_back(nullptr);
      continue;
    }
    HAMMOCK_CHECK(Contains(input.node) && input.index >= 0 &&
                      input.index < static_cast<int>(nodes_[input.node].types.size()),
                  "operand %{}.{} of {} nodes", input.node, input.index, size());
    types.push_back(&TypeOf(input));
  }
  GraphNode node;
  node.op = &op;
  node.types = InferShapes(op, types, attrs);
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.location = location;
  return Append(std::move(node));
}

void Graph::SetOutputs(std::vector<GraphValue> outputs) { outputs_ = std::move(outputs); }
void Graph::AddOutput(GraphValue value) { outputs_.push_back(value); }

NodeId Graph::Append(GraphNode node) {
  NodeId id(size());
  if (node.op == &InputOp()) inputs_.push_back(id);
  // By quarters rather than twice as much: passes hold two graphs, which are mostly this list.
  if (nodes_.size() == nodes_.capacity()) nodes_.reserve(nodes_.size() + nodes_.size() / 4 + 8);
  nodes_.push_back(std::move(node));
  return id;
}

bool Graph::operator==(const Graph& other) const {
  if (size() != other.size() || outputs_ != other.outputs_) return false;
  for (NodeId id : ids()) {
    if (!SameNode(nodes_[id], other.nodes_[id])) return false;
  }
  return dim_params == other.dim_params && dim_exprs == other.dim_exprs &&
         attr_exprs == other.attr_exprs;
}

Hash128 Graph::hash() const {
  HashSink sink;
  Describe(*this, sink);
  return sink.hash;
}

}  // namespace hammock
