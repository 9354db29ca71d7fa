#include "hammock/ir/graph.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include "expect_error.h"
#include "expect_graph.h"

namespace hammock {
namespace {

TEST(Graph, BuildsWithInference) {
  Graph graph;
  GraphValue x = graph.AddInput(Shape(f32, {2, 1}));
  GraphValue y = graph.AddInput(Shape(f32, {3}));
  GraphValue two = graph.AddConstant(Scalar(2.5).To(f32));
  NodeId sum = graph.AddNode(op_registry::Get("add"), {x, y});
  NodeId product = graph.AddNode(op_registry::Get("mul"), {{sum, 0}, two});
  graph.AddOutput({product, 0});
  EXPECT_GRAPH(graph, R"(
    %0 = input : f32[2,1]
    %1 = input : f32[3]
    %2 = constant {value=2.5, dtype=f32} : f32[]
    %3 = add %0, %1 : f32[2,3]
    %4 = mul %3, %2 : f32[2,3]
    return %4)");
  EXPECT_EQ(graph.inputs(), (std::vector{NodeId(0), NodeId(1)}));
  EXPECT_EQ(graph.TypeOf({sum, 0}), Shape(f32, {2, 3}));
  Verify(graph);
}

TEST(Graph, ConstantsCarryTheirValueWide) {
  Graph graph;
  graph.AddConstant(Scalar(3).To(i8));
  graph.AddConstant(Scalar(-1).To(u64));
  graph.AddConstant(Scalar(true));
  EXPECT_EQ(ToText(graph),
            "%0 = constant {value=3, dtype=i8} : i8[]\n"
            "%1 = constant {value=18446744073709551615:u64, dtype=u64} : u64[]\n"
            "%2 = constant {value=true, dtype=bool} : bool[]\n"
            "return\n");
}

TEST(Graph, InferenceErrorsComeFromTheOp) {
  Graph graph;
  GraphValue x = graph.AddInput(Shape(f32, {2}));
  GraphValue y = graph.AddInput(Shape(f32, {3}));
  EXPECT_EQ(MessageOf<ValueError>([&] {
              graph.AddNode(op_registry::Get("add"), {x, y});
            }),
            "add: sizes do not broadcast: [2] and [3] differ at dim 0 (2 against 3); operands are "
            "f32[2], f32[3]");
}

TEST(Graph, NodesKnowTheirAttributesByName) {
  Graph graph = ParseGraph("%0 = iota {size=4, dtype=i64} : i64[4]\nreturn %0");
  EXPECT_EQ(graph[NodeId(0)].attr("size"), Attr(4));
  EXPECT_EQ(MessageOf<InternalError>([&] {
              graph[NodeId(0)].attr("step");
            }).ends_with("iota has no attribute 'step'"),
            true);
}

// Graphs that differ in one thing.
TEST(Graph, EqualityAndHashSeeEverythingButLocations) {
  const char* texts[] = {
      "%0 = input : f32[2]\n%1 = neg %0 : f32[2]\nreturn %1",
      "%0 = input : f32[2]\n%1 = abs %0 : f32[2]\nreturn %1",
      "%0 = input : f32[2]\n%1 = neg %0 : f32[2]\nreturn %0",
      "%0 = input : f32[2]\n%1 = neg %0 : f32[2]\nreturn %1, %1",
      "%0 = input : f32[2]\n%1 = neg %0 : f32[2]\nreturn",
      "%0 = input : f64[2]\n%1 = neg %0 : f64[2]\nreturn %1",
      "%0 = input : f32[2,1]\n%1 = neg %0 : f32[2,1]\nreturn %1",
      "%0 = input : f32[2]\n%1 = input : f32[2]\n%2 = sub %0, %1 : f32[2]\nreturn %2",
      "%0 = input : f32[2]\n%1 = input : f32[2]\n%2 = sub %1, %0 : f32[2]\nreturn %2",
      "graph(n=2)\n%0 = input : f32[2]\n%1 = neg %0 : f32[2]\nreturn %1",
      "graph(m=2)\n%0 = input : f32[2]\n%1 = neg %0 : f32[2]\nreturn %1",
      "graph(n=3)\n%0 = input : f32[2]\n%1 = neg %0 : f32[2]\nreturn %1",
      "graph(n=2)\n%0 = input : f32[n]\n%1 = neg %0 : f32[2]\nreturn %1",
      "graph(n=2)\n%0 = input : f32[2]\n%1 = neg %0 : f32[n]\nreturn %1",
      "graph(n=2)\n%0 = input : f32[2*n-2]\n%1 = neg %0 : f32[2]\nreturn %1",
      "graph(n=2)\n%0 = iota {size=n, dtype=i64} : i64[2]\nreturn %0",
      "graph(n=2)\n%0 = iota {size=2, dtype=i64} : i64[2]\nreturn %0",
      "graph(n=2)\n%0 = iota {size=2, dtype=i64} : i64[n]\nreturn %0",
  };
  for (const char* a : texts) {
    for (const char* b : texts) {
      EXPECT_EQ(ParseGraph(a) == ParseGraph(b), a == b) << a << "\n" << b;
      EXPECT_EQ(ParseGraph(a).hash() == ParseGraph(b).hash(), a == b) << a << "\n" << b;
    }
  }
  Graph here = ParseGraph("%0 = input : f32[2] @ a.cpp:1\nreturn %0");
  Graph there = ParseGraph("%0 = input : f32[2] @ b.cpp:2\nreturn %0");
  EXPECT_EQ(here, there);
  EXPECT_EQ(here.hash(), there.hash());
}

TEST(DimExpr, EvaluatesAndPrints) {
  DimExpr expr{-1, {{0, 4}, {1, -1}}};
  EXPECT_EQ(expr.Evaluate({3, 2}), 9);
  EXPECT_EQ(expr.to_string({"n", "m"}), "4*n-m-1");
  EXPECT_EQ((DimExpr{2, {{0, -3}}}).to_string({"n"}), "-3*n+2");
  EXPECT_EQ((DimExpr{7, {}}).to_string({}), "7");
  EXPECT_THROW((DimExpr{1, {{0, int64_t{1} << 62}}}).Evaluate({4}), ValueError);
}

TEST(ToDot, ShowsNodesEdgesAndNestedGraphs) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[2]
    %1:2 = sort %0 {dim=0, descending=false, stable=true} : f32[2], i64[2]
    %2 = while %0 {condition=graph {
      %0 = input : f32[2]
      %1 = constant {value=true, dtype=bool} : bool[]
      return %1
    }, body=graph {
      %0 = input : f32[2]
      return %0
    }} : f32[2]
    return %1.1, %2)");
  EXPECT_EQ(ToDot(graph), R"(digraph hammock {
  node [shape=box, fontname=monospace];
  n0 [label="%0 input\nf32[2]", style=filled];
  n1 [label="%1 sort\ndim=0\ndescending=false\nstable=true\nf32[2]\ni64[2]"];
  n0 -> n1;
  n2 [label="%2 while\nf32[2]"];
  n0 -> n2;
  subgraph cluster_n2_condition_ {
    label="%2 condition";
    n2_condition_0 [label="%0 input\nf32[2]", style=filled];
    n2_condition_1 [label="%1 constant\nvalue=true\ndtype=bool\nbool[]", style=filled];
    n2_condition__out0 [label="output 0", shape=ellipse];
    n2_condition_1 -> n2_condition__out0;
  }
  subgraph cluster_n2_body_ {
    label="%2 body";
    n2_body_0 [label="%0 input\nf32[2]", style=filled];
    n2_body__out0 [label="output 0", shape=ellipse];
    n2_body_0 -> n2_body__out0;
  }
  n_out0 [label="output 0", shape=ellipse];
  n1 -> n_out0 [label="1"];
  n_out1 [label="output 1", shape=ellipse];
  n2 -> n_out1;
}
)");
}

void* RunLongChain(void*) {
  constexpr int kLength = 1'000'000;
  Graph graph;
  GraphValue value = graph.AddInput(Shape(f32, {2}));
  const OpDef& neg = op_registry::Get("neg");
  for (int i = 0; i < kLength; ++i) value = {graph.AddNode(neg, {value}), 0};
  graph.AddOutput(value);
  Verify(graph);
  std::string text = ToText(graph);
  Graph parsed = ParseGraph(text);
  EXPECT_TRUE(parsed == graph);
  EXPECT_EQ(parsed.hash(), graph.hash());
  parsed = Graph();
  EXPECT_TRUE(DeserializeGraph(Serialize(graph)) == graph);
  EXPECT_GT(ToDot(graph).size(), text.size());
  return nullptr;
}

TEST(Graph, AMillionNodesNeedNoDeepStack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, RunLongChain, nullptr), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace hammock
