// The reader of graph text; see Note [Graph text] in graph_text.cpp for the grammar.

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/nearest.h"
#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "ir/graph_access.h"
#include "ir/graph_lexer.h"
#include "ir/op_registry.h"
#include "ir/schema_access.h"
#include "ir/text.h"

namespace hammock {
namespace {

// An attribute's value and the expressions in it, by position.
struct ParsedAttr {
  Attr value;
  std::vector<std::pair<int, DimExpr>> exprs;
};

// A list item that is a number.
struct ParsedNumber {
  Scalar value;
  DimExpr expr;  // without terms unless it depends on parameters
};

// Numbers are allowed in any order in the text; printed graphs count up from 0.
class NodeNames {
 public:
  bool Add(uint32_t number, NodeId id) {
    if (sequential_ && NodeId(number) == id) return true;
    if (sequential_) {
      for (int32_t earlier = 0; earlier < id.number(); ++earlier) ids_[earlier] = NodeId(earlier);
      sequential_ = false;
    }
    return ids_.emplace(number, id).second;
  }
  NodeId Find(uint32_t number, const Graph& graph) const {
    if (sequential_) return graph.Contains(NodeId(number)) ? NodeId(number) : NodeId();
    auto entry = ids_.find(number);
    return entry == ids_.end() ? NodeId() : entry->second;
  }

 private:
  bool sequential_ = true;
  std::unordered_map<uint32_t, NodeId> ids_;
};

class GraphParser {
 public:
  /// `checked` are the nested graphs that were read; null: nothing is verified.
  GraphParser(GraphLexer& lexer, int depth, std::unordered_set<const Graph*>* checked)
      : lexer_(lexer), depth_(depth), checked_(checked) {}

  Graph ParseText() {
    if (lexer_.AcceptWord("graph")) ParseParams();
    ParseBody();
    if (!lexer_.AtEnd()) lexer_.Fail("unexpected text after the return");
    Check(graph_);
    return std::move(graph_);
  }

  // After the word "graph".
  std::shared_ptr<const Graph> ParseBlock() {
    ParseParams();
    lexer_.Expect('{');
    ParseBody();
    lexer_.Expect('}');
    auto graph = std::make_shared<const Graph>(std::move(graph_));
    Check(*graph);
    return graph;
  }

 private:
  // Fails at the node where the graph breaks a rule.
  void Check(const Graph& graph) {
    if (!checked_) return;
    std::optional<GraphFault> fault = FindFault(graph, *checked_);
    if (!fault) return;
    if (!fault->node) lexer_.Fail("{}", fault->what);
    lexer_.FailAt(node_positions_[fault->node], "{}: {}", graph[fault->node].op->name(),
                  fault->what);
  }

  void ParseParams() {
    if (!lexer_.Accept('(')) return;
    do {
      size_t at = lexer_.position();
      std::string name(lexer_.Word("a dim parameter"));
      if (!IsDimName(name)) lexer_.FailAt(at, "'{}' cannot name a dim parameter", name);
      if (ParamIndex(name) >= 0) lexer_.FailAt(at, "dim parameter '{}' is given twice", name);
      lexer_.Expect('=');
      graph_.dim_params.push_back({name, lexer_.Integer()});
      values_.push_back(graph_.dim_params.back().value);
    } while (lexer_.Accept(','));
    lexer_.Expect(')');
  }

  void ParseBody() {
    while (!lexer_.AcceptWord("return")) ParseNode();
    if (lexer_.Peek() != '%') return;
    do {
      graph_.AddOutput(ParseValue());
    } while (lexer_.Accept(','));
  }

  void ParseNode() {
    size_t at = lexer_.position();
    if (lexer_.Peek() != '%') lexer_.FailAt(at, "expected a node '%0 = ...' or 'return'");
    uint32_t number = lexer_.NodeNumber();
    std::optional<int64_t> outputs;
    if (lexer_.Accept(':')) outputs = lexer_.Integer();
    lexer_.Expect('=');

    GraphNode node;
    node.op = ParseOp();
    if (lexer_.Peek() == '%' || lexer_.PeekWord() == "none") {
      std::vector<GraphValue> inputs;
      do {
        inputs.push_back(ParseOperand());
      } while (lexer_.Accept(','));
      node.inputs = inputs;
    }
    ParseAttrs(node);
    lexer_.Expect(':');
    ParseTypes(node);
    if (outputs.value_or(1) != static_cast<int64_t>(node.types.size())) {
      lexer_.FailAt(at, "%{} has {} types, but says {} outputs", number, node.types.size(),
                    outputs.value_or(1));
    }
    if (lexer_.Accept('@')) node.location = InternLocationText(lexer_.RestOfLine());
    if (!names_.Add(number, NodeId(graph_.size())))
      lexer_.FailAt(at, "%{} is defined twice", number);
    graph_.Append(std::move(node));
    node_positions_.push_back(at);
  }

  const OpDef* ParseOp() {
    size_t at = lexer_.position();
    std::string_view name = lexer_.OpName();
    if (last_op_ && last_op_->info().name == name) return last_op_;
    last_op_ = op_registry::Find(name);
    if (!last_op_) lexer_.FailAt(at, "unknown op '{}'{}", name, OpSuggestion(name));
    if (!last_op_->IsNode()) lexer_.FailAt(at, "'{}' is a function, which makes no node", name);
    return last_op_;
  }

  GraphValue ParseOperand() {
    if (lexer_.AcceptWord("none")) return GraphValue{};
    return ParseValue();
  }

  GraphValue ParseValue() {
    size_t at = lexer_.position();
    uint32_t number = lexer_.NodeNumber();
    NodeId id = names_.Find(number, graph_);
    if (!id) lexer_.FailAt(at, "%{} is not defined before this use", number);
    int64_t index = lexer_.AcceptDot() ? lexer_.Integer() : 0;
    int64_t outputs = static_cast<int64_t>(graph_[id].types.size());
    if (index < 0 || index >= outputs) {
      lexer_.FailAt(at, "%{} has {} outputs, no output {}", number, outputs, index);
    }
    return {id, static_cast<int32_t>(index)};
  }

  void ParseAttrs(GraphNode& node) {
    const OpInfo& info = node.op->info();
    size_t count = info.attribute_args.size();
    size_t at = lexer_.position();
    std::vector<bool> given(count, false);
    std::vector<Attr> attrs(count);
    if (lexer_.Accept('{') && !lexer_.Accept('}')) {
      do {
        ParseNamedAttr(info, attrs, given);
      } while (lexer_.Accept(','));
      lexer_.Expect('}');
    }
    for (size_t i = 0; i < count; ++i) {
      if (given[i]) continue;
      const SchemaArgument& argument = info.schema.arguments()[info.attribute_args[i]];
      if (!argument.default_value) {
        lexer_.FailAt(at, "attribute '{}' of {} is missing", argument.name, info.name);
      }
      attrs[i] = MakeAttr(argument.type, *argument.default_value);
    }
    node.attrs = attrs;
  }

  void ParseNamedAttr(const OpInfo& info, std::vector<Attr>& attrs, std::vector<bool>& given) {
    size_t at = lexer_.position();
    std::string_view name = lexer_.Word("an attribute");
    int index = info.AttributeIndex(name);
    if (index < 0) FailUnknownAttr(at, info, name);
    if (given[index]) lexer_.FailAt(at, "attribute '{}' is given twice", name);
    given[index] = true;
    lexer_.Expect('=');
    at = lexer_.position();
    ParsedAttr attr = ParseAttr();
    const SchemaType& type = info.schema.arguments()[info.attribute_args[index]].type;
    attrs[index] = Coerce(type, std::move(attr.value));
    if (!AttrFits(type, attrs[index])) {
      lexer_.FailAt(at, "attribute '{}' of {} must be {}, got {}", name, info.name,
                    type.to_string(), attrs[index].to_string());
    }
    for (auto& [position, expr] : attr.exprs) {
      graph_.attr_exprs[{NodeId(graph_.size()), index, position}] = std::move(expr);
    }
  }

  [[noreturn]] void FailUnknownAttr(size_t at, const OpInfo& info, std::string_view name) {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < info.attribute_args.size(); ++i) {
      names.push_back(info.AttributeName(static_cast<int>(i)));
    }
    std::string_view nearest = NearestName(name, names);
    if (nearest.empty()) lexer_.FailAt(at, "{} has no attributes", info.name);
    lexer_.FailAt(at, "{} has no attribute '{}', did you mean '{}'?", info.name, name, nearest);
  }

  // Whole numbers may be written where floats are meant, and [] for any list.
  static Attr Coerce(const SchemaType& type, Attr attr) {
    bool empty = attr.kind() == Attr::Kind::kInts && attr.ints().empty();
    if (empty && type.list && type.base == SchemaType::Base::kString) {
      return Attr(std::vector<std::string>());
    }
    if (type.base != SchemaType::Base::kFloat) return attr;
    if (attr.kind() == Attr::Kind::kScalar && attr.scalar().dtype() == DType::kI64) {
      return Attr(attr.scalar().To(DType::kF64));
    }
    if (attr.kind() == Attr::Kind::kInts) {
      return Attr(std::vector<double>(attr.ints().begin(), attr.ints().end()));
    }
    return attr;
  }

  ParsedAttr ParseAttr() {
    char next = lexer_.Peek();
    if (next == '"') return {Attr(lexer_.Quoted()), {}};
    if (next == '[') return ParseList("");
    std::string_view word = lexer_.PeekWord();
    if (lexer_.AcceptWord("none")) return {};
    if (lexer_.AcceptWord("true")) return {Attr(true), {}};
    if (lexer_.AcceptWord("false")) return {Attr(false), {}};
    if (lexer_.AcceptWord("graph")) return {Attr(ParseNested()), {}};
    if (lexer_.AcceptWord("floats")) return ParseList("floats");
    if (lexer_.AcceptWord("strings")) return ParseList("strings");
    if (std::optional<DType> dtype = word.empty() ? std::nullopt : DTypeFromName(word)) {
      lexer_.AcceptWord(word);
      return {Attr(*dtype), {}};
    }
    bool inverse = lexer_.AcceptWord("inverse");
    if (inverse) lexer_.Expect('(');
    ParsedNumber number = ParseNumberOrExpr();
    if (inverse) {
      lexer_.Expect(')');
      number.value = Scalar(1 / number.value.ToDouble());
    }
    ParsedAttr attr{Attr(number.value), {}};
    if (number.expr.terms.empty()) return attr;
    if (lexer_.Accept(':')) {
      attr.value = Attr(number.value.To(ParseDType()));
    }
    attr.exprs.emplace_back(0, std::move(number.expr));
    return attr;
  }

  std::shared_ptr<const Graph> ParseNested() {
    if (depth_ >= kMaxGraphDepth) lexer_.Fail("graphs are nested deeper than {}", kMaxGraphDepth);
    return GraphParser(lexer_, depth_ + 1, checked_).ParseBlock();
  }

  ParsedAttr ParseList(std::string_view kind) {
    lexer_.Expect('[');
    bool empty = lexer_.Accept(']');
    if (kind == "strings" || (!empty && lexer_.Peek() == '"')) return ParseStrings(empty);
    std::vector<ParsedNumber> items;
    if (!empty) {
      do {
        items.push_back(ParseNumberOrExpr());
      } while (lexer_.Accept(','));
      lexer_.Expect(']');
    }
    bool floats = kind == "floats";
    for (const ParsedNumber& item : items) floats = floats || item.value.IsFloating();
    return floats ? MakeFloats(items) : MakeInts(items);
  }

  ParsedAttr ParseStrings(bool empty) {
    std::vector<std::string> items;
    if (!empty) {
      do {
        items.push_back(lexer_.Quoted());
      } while (lexer_.Accept(','));
      lexer_.Expect(']');
    }
    return {Attr(std::move(items)), {}};
  }

  static ParsedAttr MakeFloats(const std::vector<ParsedNumber>& items) {
    std::vector<double> values;
    for (const ParsedNumber& item : items) values.push_back(item.value.ToDouble());
    return {Attr(std::move(values)), {}};
  }

  static ParsedAttr MakeInts(const std::vector<ParsedNumber>& items) {
    std::vector<int64_t> values;
    ParsedAttr attr;
    for (const ParsedNumber& item : items) {
      if (!item.expr.terms.empty()) attr.exprs.emplace_back(values.size(), item.expr);
      values.push_back(item.value.ToInt());
    }
    attr.value = Attr(std::move(values));
    return attr;
  }

  ParsedNumber ParseNumberOrExpr() {
    if (std::optional<Scalar> number = lexer_.AcceptNumber()) return {*number, {}};
    DimExpr expr = ParseExpr();
    return {Scalar(Evaluate(expr)), std::move(expr)};
  }

  void ParseTypes(GraphNode& node) {
    if (lexer_.Accept('(')) return lexer_.Expect(')');
    std::vector<Shape> types;
    do {
      types.push_back(ParseType(static_cast<int>(types.size())));
    } while (lexer_.Accept(','));
    node.types = types;
  }

  DType ParseDType() {
    size_t at = lexer_.position();
    std::string_view word = lexer_.Word("a type such as f32[2,3]");
    std::optional<DType> dtype = DTypeFromName(word);
    if (!dtype) lexer_.FailAt(at, "unknown dtype '{}'", word);
    return *dtype;
  }

  Shape ParseType(int output) {
    size_t at = lexer_.position();
    DType dtype = ParseDType();
    Dims sizes;
    lexer_.Expect('[');
    if (!lexer_.Accept(']')) {
      do {
        if (sizes.size() == kMaxRank) lexer_.FailAt(at, "more than {} dims", kMaxRank);
        DimExpr expr = ParseExpr();
        int dim = sizes.size();
        sizes.push_back(Evaluate(expr));
        if (!expr.terms.empty())
          graph_.dim_exprs[{NodeId(graph_.size()), output, dim}] = std::move(expr);
      } while (lexer_.Accept(','));
      lexer_.Expect(']');
    }
    try {
      CheckSizes("type", sizes);
    } catch (const ValueError& error) {
      lexer_.FailAt(at, "{}", error.message());
    }
    return Shape(dtype, sizes);
  }

  // 4*n+m-1
  DimExpr ParseExpr() {
    DimExpr expr;
    bool negative = lexer_.Accept('-');
    do {
      ParseTerm(expr, negative ? -1 : 1);
      negative = lexer_.Peek() == '-';
    } while (lexer_.Accept('+') || lexer_.Accept('-'));
    std::sort(expr.terms.begin(), expr.terms.end());
    std::erase_if(expr.terms, [](const auto& term) { return term.second == 0; });
    return expr;
  }

  void ParseTerm(DimExpr& expr, int64_t sign) {
    size_t at = lexer_.position();
    bool number = lexer_.PeekDigit();
    int64_t coefficient = sign;
    if (number && __builtin_mul_overflow(lexer_.Integer(), sign, &coefficient)) Overflow(at);
    if (number && !lexer_.Accept('*')) {
      if (__builtin_add_overflow(expr.constant, coefficient, &expr.constant)) Overflow(at);
      return;
    }
    at = lexer_.position();
    std::string_view name = lexer_.Word("a number or a dim parameter");
    int index = ParamIndex(name);
    if (index < 0) lexer_.FailAt(at, "unknown dim parameter '{}'", name);
    for (auto& [parameter, sum] : expr.terms) {
      if (parameter != index) continue;
      if (__builtin_add_overflow(sum, coefficient, &sum)) Overflow(at);
      return;
    }
    expr.terms.emplace_back(index, coefficient);
  }

  int64_t Evaluate(const DimExpr& expr) {
    try {
      return expr.Evaluate(values_);
    } catch (const ValueError& error) {
      lexer_.Fail("{}", error.message());
    }
  }

  [[noreturn]] void Overflow(size_t at) { lexer_.FailAt(at, "the expression overflows"); }

  int ParamIndex(std::string_view name) const {
    for (size_t i = 0; i < graph_.dim_params.size(); ++i) {
      if (graph_.dim_params[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

  GraphLexer& lexer_;
  int depth_;
  std::unordered_set<const Graph*>* checked_;
  Graph graph_;
  NodeMap<size_t> node_positions_;
  NodeNames names_;
  std::vector<int64_t> values_;  // of the dim parameters
  const OpDef* last_op_ = nullptr;
};

}  // namespace

Graph ParseGraph(std::string_view text) {
  GraphLexer lexer(text);
  std::unordered_set<const Graph*> checked;
  return GraphParser(lexer, 0, &checked).ParseText();
}

Graph ParseGraphUnverified(std::string_view text) {
  GraphLexer lexer(text);
  return GraphParser(lexer, 0, nullptr).ParseText();
}

}  // namespace hammock
