// The runner of passes.

#include "compiler/passes/pass.h"

#include <gtest/gtest.h>

#include "compiler/passes/expand.h"
#include "compiler/passes/make_explicit.h"
#include "ir/graph_sizes.h"

namespace hammock {
namespace {

TEST(RunPass, GoesIntoBodies) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[2]
      %2 = relu %1 : f32[2]
      %3 = add %2, %0 : f32[2]
      return %3
    }, count=3, num_carried=1, num_stacked_in=0} : f32[2]
    return %1)");
  const Pass passes[] = {{"expand", [](Graph g) { return ExpandComposites(std::move(g)); }},
                         {"make_explicit", MakeExplicit}};
  Graph lowered = RunPasses(passes, graph);
  const Graph& body = lowered.nodes().back().attrs[0].graph();
  for (const GraphNode& node : body.nodes()) EXPECT_FALSE(node.op->IsComposite());
  std::string text = ToText(body);
  EXPECT_NE(text.find("maximum"), std::string::npos) << text;
  EXPECT_NE(text.find("cast"), std::string::npos) << text;
}

/// Passes decide by sizes, and those of a graph with dim parameters are of one sample.
TEST(RunPass, LeavesGraphsWithDimParametersAlone) {
  const Graph general = ParseGraph(R"(
    graph(n=3)
    %0 = input : f32[n,4]
    %1 = relu %0 : f32[n,4]
    return %1)");
  const Pass expand = {"expand", [](Graph graph) { return ExpandComposites(std::move(graph)); }};
  EXPECT_EQ(RunPass(expand, general), general);
  const Graph special = AtSizes(general, {3});
  EXPECT_NE(RunPass(expand, special), special);
}

}  // namespace
}  // namespace hammock
