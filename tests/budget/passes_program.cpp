/// Optimises one graph of about NODES * TIMES nodes in which there is much to do.
///   passes_program NODES TIMES

#include <cstdlib>

#include "backends/table.h"
#include "compiler/pipeline.h"

using namespace hammock;

int main(int, char** argv) {
  int nodes = std::atoi(argv[1]) * std::atoi(argv[2]);
  Graph graph;
  auto apply = [&](const char* op, std::vector<GraphValue> in, std::vector<Attr> attrs = {}) {
    return GraphValue{graph.AddNode(op_registry::Get(op), std::move(in), std::move(attrs)), 0};
  };
  GraphValue x = graph.AddInput(Shape(f32, {2, 3}));
  GraphValue number = graph.AddConstant(Scalar(1).To(f32));
  GraphValue one = apply("broadcast", {number}, {Attr(Dims{6})});
  while (graph.size() < nodes) {
    GraphValue flat = apply("reshape", {apply("exp", {x})}, {Attr(Dims{6})});
    GraphValue same = apply("mul", {flat, one});
    GraphValue sum = apply("add", {same, apply("neg", {apply("neg", {flat})})});
    number = apply("mul", {number, number});
    x = apply("reshape", {sum}, {Attr(Dims{2, 3})});
  }
  graph.SetOutputs({x, number});
  Graph after = Optimise(graph, EvaluateOnHost);
  return after.size() < nodes / 3 ? 0 : 1;
}
