// The DOT form of a graph, for graphviz.

#include <fmt/format.h>

#include <iterator>

#include "hammock/ir/graph.h"
#include "ir/graph_access.h"
#include "ir/id_format.h"

namespace hammock {
namespace {

class DotPrinter {
 public:
  std::string Print(const Graph& graph) {
    out_ = "digraph hammock {\n  node [shape=box, fontname=monospace];\n";
    PrintGraph(graph, "n", 2);
    return std::move(out_) + "}\n";
  }

 private:
  // Nodes of a nested graph are named by their path, such as n3_body_0.
  void PrintGraph(const Graph& graph, const std::string& prefix, int indent) {
    for (NodeId id : graph.ids()) PrintNode(graph, id, prefix, indent);
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      GraphValue output = graph.outputs()[i];
      Line(indent, "{}_out{} [label=\"output {}\", shape=ellipse];", prefix, i, i);
      Line(indent, "{}{} -> {}_out{}{};", prefix, output.node, prefix, i, EdgeLabel(output));
    }
  }

  void PrintNode(const Graph& graph, NodeId id, const std::string& prefix, int indent) {
    const GraphNode& node = graph[id];
    Line(indent, "{}{} [label=\"{}\"{}];", prefix, id, Label(id, node),
         node.inputs.empty() ? ", style=filled" : "");
    for (GraphValue input : node.inputs) {
      if (!input.node) continue;
      Line(indent, "{}{} -> {}{}{};", prefix, input.node, prefix, id, EdgeLabel(input));
    }
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      if (node.attrs[i].kind() != Attr::Kind::kGraph) continue;
      const std::string& name = node.op->info().AttributeName(static_cast<int>(i));
      std::string nested = fmt::format("{}{}_{}_", prefix, id, name);
      Line(indent, "subgraph cluster_{} {{", nested);
      Line(indent + 2, "label=\"%{} {}\";", id, name);
      PrintGraph(node.attrs[i].graph(), nested, indent + 2);
      Line(indent, "}}");
    }
  }

  static std::string EdgeLabel(GraphValue value) {
    return value.index == 0 ? "" : fmt::format(" [label=\"{}\"]", value.index);
  }

  static std::string Label(NodeId id, const GraphNode& node) {
    std::string label = fmt::format("%{} {}", id, node.op->info().name);
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      if (node.attrs[i].kind() == Attr::Kind::kGraph) continue;
      label += fmt::format("\n{}={}", node.op->info().AttributeName(static_cast<int>(i)),
                           node.attrs[i].to_string());
    }
    for (const Shape& type : node.types) {
      label += '\n';
      label += type.to_string();
    }
    return Escape(label);
  }

  static std::string Escape(const std::string& label) {
    std::string out;
    for (char c : label) {
      if (c == '"' || c == '\\') out += '\\';
      if (c == '\n') {
        out += "\\n";
      } else {
        out += c;
      }
    }
    return out;
  }

  template <class... Args>
  void Line(int indent, fmt::format_string<Args...> format, Args&&... args) {
    out_.append(static_cast<size_t>(indent), ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  std::string out_;
};

}  // namespace

std::string ToDot(const Graph& graph) { return DotPrinter().Print(graph); }

}  // namespace hammock
