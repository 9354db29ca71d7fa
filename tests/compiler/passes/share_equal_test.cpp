#include "compiler/passes/share_equal.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/passes/expand.h"
#include "compiler/passes/make_explicit.h"
#include "compiler/pipeline.h"
#include "hammock/autograd.h"
#include "hammock/executor.h"
#include "hammock/ops.h"

namespace hammock {
namespace {

int64_t CountOf(const Graph& graph, std::string_view op) {
  return std::ranges::count_if(graph.nodes(),
                               [&](const GraphNode& n) { return op == n.op->name(); });
}

TEST(ShareEqual, MakesEqualNodesOneAndKeepsTheFirstLocation) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = exp %0 : f32[2]  @ model.cpp:1
    %2 = exp %0 : f32[2]  @ model.cpp:2
    %3 = neg %1 : f32[2]
    %4 = neg %2 : f32[2]
    %5 = add %3, %4 : f32[2]
    return %5, %2)");
  EXPECT_EQ(ToText(ShareEqual(graph), {.locations = true}),
            "%0 = input : f32[2]\n"
            "%1 = exp %0 : f32[2]  @ model.cpp:1\n"
            "%2 = neg %1 : f32[2]\n"
            "%3 = add %2, %2 : f32[2]\n"
            "return %3, %1\n");
}

TEST(ShareEqual, LooksAtAttributesTypesAndOperandOrder) {
  const char* text =
      "%0 = input : f32[2,2]\n"
      "%1 = input : f32[2,2]\n"
      "%2 = reduce_sum %0 {dims=[0], keepdim=false} : f32[2]\n"
      "%3 = reduce_sum %0 {dims=[1], keepdim=false} : f32[2]\n"
      "%4 = sub %0, %1 : f32[2,2]\n"
      "%5 = sub %1, %0 : f32[2,2]\n"
      "%6 = cast %0 {dtype=f64} : f64[2,2]\n"
      "%7 = cast %0 {dtype=i64} : i64[2,2]\n"
      "return %2, %3, %4, %5, %6, %7\n";
  EXPECT_EQ(ToText(ShareEqual(ParseGraph(text))), text);
}

TEST(ShareEqual, SharesRandomBitsOfOneStateOnly) {
  Graph graph = ParseGraph(R"(
    %0 = input : u64[2]
    %1 = input : u64[2]
    %2 = rng_bits %0 {sizes=[3]} : u32[3]
    %3 = rng_bits %0 {sizes=[3]} : u32[3]
    %4 = rng_bits %1 {sizes=[3]} : u32[3]
    return %2, %3, %4)");
  EXPECT_EQ(ToText(ShareEqual(graph)),
            "%0 = input : u64[2]\n"
            "%1 = input : u64[2]\n"
            "%2 = rng_bits %0 {sizes=[3]} : u32[3]\n"
            "%3 = rng_bits %1 {sizes=[3]} : u32[3]\n"
            "return %2, %2, %3\n");
}

TEST(ShareEqual, LeavesOrderedNodesAndLoopsAroundThem) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1 = custom_call %0 {target="log", payload="", types=["f32[2]"]} : f32[2]
    %2 = custom_call %0 {target="log", payload="", types=["f32[2]"]} : f32[2]
    return %1, %2)");
  EXPECT_EQ(ShareEqual(graph), graph);
  std::string loop = R"(loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[2]
      %2 = OP
      return %2
    }, count=3, num_carried=1, num_stacked_in=0} : f32[2]
  )";
  auto twice = [&](const std::string& op) {
    std::string body = loop;
    body.replace(body.find("OP"), 2, op);
    return ParseGraph("%0 = input : f32[2]\n%1 = " + body + "\n%2 = " + body + "\nreturn %1, %2");
  };
  EXPECT_EQ(ShareEqual(twice("exp %1 : f32[2]")).size(), 2);
  EXPECT_EQ(ShareEqual(twice("custom_call %1 {target=\"log\", payload=\"\", "
                             "types=[\"f32[2]\"]} : f32[2]"))
                .size(),
            3);
}

/// A draw of its own at every run.
constinit const OpDef kDraw = {
    .schema = "draw_for_tests(Tensor self) -> Tensor",
    .effect = Effect::kRandom,
    .infer = [](const InferCall& call) { call.out = {*call.in[0]}; },
};
const OpRegistrar registrar(kDraw);

TEST(ShareEqual, LeavesNodesThatDrawByThemselves) {
  Graph graph;
  GraphValue x = graph.AddInput(Shape(DType::kF32, {2}));
  graph.AddOutput({graph.AddNode(kDraw, {x}), 0});
  graph.AddOutput({graph.AddNode(kDraw, {x}), 0});
  EXPECT_EQ(ShareEqual(graph), graph);
}

TEST(ShareEqual, LeavesARegionThatACheckpointComputesAgain) {
  Tensor x = ones({8}).requires_grad_();
  sync_multi({x});
  TensorsFn layer = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {exp(exp(exp(in[0])))};
  };
  auto graph_of = [&](const Tensor& result) {
    std::vector<Tensor> wanted = {result, grad({sum(result)}, {x})[0]};
    Graph traced = ParseGraph(LazyGraphExecutor::Get()->DumpTensors(wanted));
    return MakeExplicit(ExpandComposites(traced));
  };
  // The gradient of exp reads its result: with a checkpoint all three are computed twice.
  EXPECT_EQ(CountOf(Optimise(graph_of(layer({x})[0]), nullptr), "exp"), 3);
  Graph graph = graph_of(checkpoint(layer, {x})[0]);
  EXPECT_EQ(CountOf(graph, "barrier"), 1);
  EXPECT_EQ(CountOf(ShareEqual(graph), "exp"), 6);
  EXPECT_EQ(CountOf(Optimise(graph, nullptr), "exp"), 6);
  // What is computed again waits for the gradient that arrives.
  for (const GraphNode& node : graph.nodes()) {
    if (std::string_view("barrier") != node.op->name()) continue;
    EXPECT_EQ(node.inputs.size(), 2u);
  }
}

}  // namespace
}  // namespace hammock
