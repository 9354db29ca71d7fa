#include "compiler/passes/expand.h"

#include <gtest/gtest.h>

#include "hammock/ir/graph.h"

namespace hammock {
namespace {

TEST(Expand, ReplacesCompositesUntilPrimitivesAreLeft) {
  Graph graph = ParseGraph(
      "%0 = input : f32[2,3]\n"
      "%1 = relu6 %0 : f32[2,3]\n"
      "%2 = mean.dim %1 {dim=[1], keepdim=false, dtype=none} : f32[2]\n"
      "return %2");
  EXPECT_EQ(ToText(ExpandComposites(graph)),
            "%0 = input : f32[2,3]\n"
            "%1 = constant {value=6.0:f32, dtype=f32} : f32[]\n"
            "%2 = constant {value=0.0:f32, dtype=f32} : f32[]\n"
            "%3 = maximum %0, %2 : f32[2,3]\n"
            "%4 = minimum %3, %1 : f32[2,3]\n"
            "%5 = constant {value=3.0:f32, dtype=f32} : f32[]\n"
            "%6 = reduce_sum %4 {dims=[1], keepdim=false} : f32[2]\n"
            "%7 = div %6, %5 : f32[2]\n"
            "return %7\n");
}

TEST(Expand, SelectsAreSlicesWithoutTheirDim) {
  Graph graph = ParseGraph(
      "%0 = input : f32[2,3]\n"
      "%1 = input : i64[]\n"
      "%2 = dynamic_select %0, %1 {dim=1} : f32[2]\n"
      "return %2");
  EXPECT_EQ(ToText(ExpandComposites(graph)),
            "%0 = input : f32[2,3]\n"
            "%1 = input : i64[]\n"
            "%2 = dynamic_slice %0, %1 {dim=1, size=1, step=1} : f32[2,1]\n"
            "%3 = reshape %2 {sizes=[2]} : f32[2]\n"
            "return %3\n");
}

TEST(Expand, KeepsWhatABackendWantsWhole) {
  Graph graph = ParseGraph(
      "%0 = input : f32[3]\n"
      "%1 = relu %0 : f32[3]\n"
      "%2 = silu %1 : f32[3]\n"
      "return %2");
  auto keep = [](const Graph& g, NodeId id) {
    return std::string_view(g[id].op->name()) == "relu";
  };
  std::string text = ToText(ExpandComposites(graph, keep));
  EXPECT_NE(text.find("relu"), std::string::npos) << text;
  EXPECT_EQ(text.find("silu"), std::string::npos) << text;
}

}  // namespace
}  // namespace hammock
