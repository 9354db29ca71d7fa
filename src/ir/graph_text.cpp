// The printer of graph text; graph_parser.cpp reads it back. Note [Graph text]
//
//   text      = ["graph" params] body
//   block     = "graph" [params] "{" body "}"              the value of a graph attribute
//   params    = "(" name "=" integer {"," ...} ")"
//   body      = {node} "return" [value {"," value}]
//   node      = "%" id [":" outputs] "=" op [operand {"," operand}] [attrs] ":" types ["@"
//   location] operand   = value | "none" value     = "%" id ["." output] attrs     = "{" name "="
//   attribute {"," ...} "}" types     = type {"," type} | "()" type      = dtype "[" [size {","
//   size}] "]" size      = integer or a linear expression in the parameters, `4*n-1` attribute =
//   "none" | "true" | "false" | number[":" dtype] | dtype | string | size[":" dtype] | list | block
//   list =
//   ["floats" | "strings"] "[" [item {"," item}] "]"
//
// A location runs to the end of its line; "#" starts a comment. Line breaks mean nothing else.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "hammock/ir/graph.h"
#include "ir/graph_access.h"
#include "ir/id_format.h"

namespace hammock {
namespace {

class GraphPrinter {
 public:
  GraphPrinter(std::string& out, const Graph& graph, int indent, const PrintOptions& options)
      : out_(out), graph_(graph), indent_(indent), options_(options) {
    for (const DimParam& param : graph.dim_params) names_.push_back(param.name);
  }

  void PrintParams() {
    const char* separator = "(";
    for (const DimParam& param : graph_.dim_params) {
      Format("{}{}={}", std::exchange(separator, ", "), param.name, param.value);
    }
    if (!names_.empty()) out_ += ')';
  }

  void PrintBody() {
    for (NodeId id : graph_.ids()) PrintNode(id);
    StartLine();
    out_ += "return";
    const char* separator = " ";
    for (GraphValue output : graph_.outputs()) {
      out_ += std::exchange(separator, ", ");
      PrintValue(output);
    }
    out_ += '\n';
  }

 private:
  void PrintNode(NodeId id) {
    const GraphNode& node = graph_[id];
    StartLine();
    Format("%{}", id);
    if (node.types.size() != 1) Format(":{}", node.types.size());
    out_ += " = ";
    out_ += node.op->info().name;
    const char* separator = " ";
    for (GraphValue input : node.inputs) {
      out_ += std::exchange(separator, ", ");
      PrintValue(input);
    }
    PrintAttrs(id, node);
    PrintTypes(id, node);
    if (options_.locations && node.location != 0) PrintLocation(WhereText(node.location));
    out_ += '\n';
  }

  void PrintLocation(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    Format("  @ {}", text);
  }

  void PrintValue(GraphValue value) {
    if (!value.node) {
      out_ += "none";
      return;
    }
    Format("%{}", value.node);
    // The verifier refuses values that are out of range; dumps of such graphs still print.
    bool single = graph_.Contains(value.node) && graph_[value.node].types.size() == 1;
    if (!single || value.index != 0) Format(".{}", value.index);
  }

  void PrintAttrs(NodeId id, const GraphNode& node) {
    if (node.attrs.empty()) return;
    const char* separator = " {";
    for (int i = 0; i < static_cast<int>(node.attrs.size()); ++i) {
      out_ += std::exchange(separator, ", ");
      out_ += node.op->info().AttributeName(i);
      out_ += '=';
      PrintAttr(id, i, node.attrs[i]);
    }
    out_ += '}';
  }

  void PrintAttr(NodeId id, int index, const Attr& attr) {
    if (graph_.attr_exprs.empty()) return AppendAttr(out_, attr, indent_, options_);
    if (attr.kind() == Attr::Kind::kInts) {
      out_ += '[';
      for (size_t i = 0; i < attr.ints().size(); ++i) {
        if (i > 0) out_ += ',';
        PrintSize(graph_.attr_exprs, {id, index, static_cast<int>(i)}, attr.ints()[i]);
      }
      out_ += ']';
    } else if (attr.kind() == Attr::Kind::kScalar && graph_.attr_exprs.contains({id, index, 0})) {
      const std::string text = graph_.attr_exprs.at({id, index, 0}).to_string(names_);
      if (IsInverse(attr.scalar())) {
        Format("inverse({})", text);
      } else {
        out_ += text;
      }
      DType dtype = attr.scalar().dtype();
      if (dtype != DType::kI64) Format(":{}", NameOf(dtype));
    } else {
      AppendAttr(out_, attr, indent_, options_);
    }
  }

  void PrintTypes(NodeId id, const GraphNode& node) {
    out_ += " : ";
    if (node.types.empty()) out_ += "()";
    for (int i = 0; i < static_cast<int>(node.types.size()); ++i) {
      const Shape& type = node.types[i];
      if (i > 0) out_ += ", ";
      out_ += NameOf(type.dtype());
      out_ += '[';
      for (int dim = 0; dim < type.rank(); ++dim) {
        if (dim > 0) out_ += ',';
        PrintSize(graph_.dim_exprs, {id, i, dim}, type.size(dim));
      }
      out_ += ']';
    }
  }

  void PrintSize(const std::map<std::tuple<NodeId, int, int>, DimExpr>& exprs,
                 const std::tuple<NodeId, int, int>& key, int64_t size) {
    auto entry = exprs.empty() ? exprs.end() : exprs.find(key);
    if (entry == exprs.end()) {
      Format("{}", size);
    } else {
      out_ += entry->second.to_string(names_);
    }
  }

  void StartLine() { out_.append(static_cast<size_t>(indent_), ' '); }

  template <class... Args>
  void Format(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  std::string& out_;
  const Graph& graph_;
  int indent_;
  const PrintOptions& options_;
  std::vector<std::string> names_;
};

}  // namespace

void AppendGraphBlock(std::string& out, const Graph& graph, int indent,
                      const PrintOptions& options) {
  GraphPrinter printer(out, graph, indent + 2, options);
  out += "graph";
  printer.PrintParams();
  out += " {\n";
  printer.PrintBody();
  out.append(static_cast<size_t>(indent), ' ');
  out += '}';
}

std::string ToText(const Graph& graph, const PrintOptions& options) {
  std::string out;
  GraphPrinter printer(out, graph, 0, options);
  if (!graph.dim_params.empty()) {
    out += "graph";
    printer.PrintParams();
    out += '\n';
  }
  printer.PrintBody();
  return out;
}

}  // namespace hammock
