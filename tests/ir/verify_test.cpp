#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "expect_error.h"
#include "hammock/ir/graph.h"
#include "ir/graph_access.h"
#include "test_records.h"

namespace hammock {
namespace {

std::string VerifyError(const Graph& graph) {
  return MessageOf<InternalError>([&] { Verify(graph); });
}

Graph Sample() {
  return ParseGraph(R"(graph(n=2)
    %0 = input : f32[n]
    %1 = neg %0 : f32[n]
    %2:2 = sort %1 {dim=0, descending=false, stable=false} : f32[n], i64[n]
    %3 = iota {size=n, dtype=i64} : i64[n]
    %4 = add %2.1, %3 : i64[n]
    return %4)");
}

// The verifier's message after one change to the sample.
std::string After(const std::function<void(Graph&)>& change) {
  Graph graph = Sample();
  change(graph);
  return VerifyError(graph);
}

TEST(Verify, AcceptsTheSample) { EXPECT_EQ(VerifyError(Sample()), "no error"); }

TEST(Verify, ChecksOps) {
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(1)).op = nullptr; }),
            "verify: %1 = (no op): a node without an op");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(1)).op = &kTwiceInt; }),
            "verify: %1 = test::twice.int: a function makes no node");
}

TEST(Verify, ChecksOperands) {
  EXPECT_EQ(After([](Graph& g) {
              g.mutable_node(NodeId(1)).inputs.Set(0, {NodeId(1), 0});
            }),
            "verify: %1 = neg: operand 0 is %1, which does not come before it");
  EXPECT_EQ(After([](Graph& g) {
              g.mutable_node(NodeId(1)).inputs.Set(0, {NodeId(99), 0});
            }),
            "verify: %1 = neg: operand 0 is %99, which does not come before it");
  EXPECT_EQ(After([](Graph& g) {
              g.mutable_node(NodeId(1)).inputs.Set(0, {NodeId(-7), 0});
            }),
            "verify: %1 = neg: operand 0 is %-7, which does not come before it");
  EXPECT_EQ(After([](Graph& g) {
              g.mutable_node(NodeId(4)).inputs.Set(0, {NodeId(2), 2});
            }),
            "verify: %4 = add: %2.2 does not exist: %2 has 2 outputs");
  EXPECT_EQ(After([](Graph& g) {
              g.mutable_node(NodeId(4)).inputs.Set(0, {NodeId(2), -1});
            }),
            "verify: %4 = add: %2.-1 does not exist: %2 has 2 outputs");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(1)).inputs.Set(0, {}); }),
            "verify: %1 = neg: operand 0 ('self') is absent, but not optional");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(1)).inputs = {}; }),
            "verify: %1 = neg: it has 0 operands, its schema 1");
  EXPECT_EQ(After([](Graph& g) {
              g.mutable_node(NodeId(0)).inputs.push_back({NodeId(0), 0});
            }),
            "verify: %0 = input: it has 1 operands, its schema 0");
}

TEST(Verify, ChecksAttributes) {
  EXPECT_EQ(After([](Graph& g) {
              g.mutable_node(NodeId(2)).attrs = {Attr(0), Attr(false)};
            }),
            "verify: %2 = sort: it has 2 attributes, its schema 3");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(2)).attrs.Set(0, Attr(0.0)); }),
            "verify: %2 = sort: attribute 'dim' must be int, got 0.0");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(2)).attrs.Set(0, Attr()); }),
            "verify: %2 = sort: attribute 'dim' must be int, got none");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(2)).attrs.Set(1, Attr(1)); }),
            "verify: %2 = sort: attribute 'descending' must be bool, got 1");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(3)).attrs.Set(1, Attr("i64")); }),
            "verify: %3 = iota: attribute 'dtype' must be ScalarType, got \"i64\"");
}

TEST(Verify, ChecksTypes) {
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(4)).types.Set(0, Shape(i32, {2})); }),
            "verify: %4 = add: its types are i32[2], inference gives i64[2]");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(2)).types = {Shape(f32, {2})}; }),
            "verify: %2 = sort: its types are f32[2], inference gives f32[2], i64[2]");
  EXPECT_EQ(
      After([](Graph& g) { g.mutable_node(NodeId(0)).types.Set(0, Shape(DType::kI4, {3})); }),
      "verify: %0 = input: type: i4 is packed, 2 elements a byte: the last size of i4[3] is no "
      "multiple of 2");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(0)).types.Set(0, Shape(f32, {-2})); }),
            "verify: %0 = input: type: sizes must not be negative: [-2]");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(0)).types = {}; }),
            "verify: %0 = input: a leaf has one type, not 0");
  EXPECT_EQ(After([](Graph& g) { g.mutable_node(NodeId(3)).types.Set(0, Shape(i64, {3})); }),
            "verify: %3 = iota: its types are i64[3], inference gives i64[2]");
  EXPECT_EQ(After([](Graph& g) {
              g.mutable_node(NodeId(3)).types.Set(0, Shape(i64, {3}));
              g.mutable_node(NodeId(3)).attrs.Set(0, Attr(3));
            }),
            "verify: %4 = add: inference fails: add: sizes do not broadcast: [2] and [3] differ at "
            "dim 0 (2 against 3); operands are i64[2], i64[3]");
}

TEST(Verify, ChecksOutputsAndInputs) {
  EXPECT_EQ(After([](Graph& g) {
              g.SetOutputs({{NodeId(5), 0}});
            }),
            "verify: output 0 is %5, of 5 nodes");
  EXPECT_EQ(After([](Graph& g) { g.SetOutputs({GraphValue{}}); }),
            "verify: output 0 is %-1, of 5 nodes");
  EXPECT_EQ(After([](Graph& g) {
              g.SetOutputs({{NodeId(4), 1}});
            }),
            "verify: %4.1 does not exist: %4 has 1 outputs");
  EXPECT_EQ(After([](Graph& g) {
              g.mutable_node(NodeId(1)).op = g[NodeId(0)].op;
              g.mutable_node(NodeId(1)).inputs = {};
            }),
            "verify: the list of inputs differs from the input nodes");
}

TEST(Verify, ChecksDimExpressions) {
  EXPECT_EQ(After([](Graph& g) { g.dim_params[0].value = 3; }),
            "verify: %0 = input: dim expression n is 3, not 2");
  EXPECT_EQ(After([](Graph& g) { g.dim_params[0].name = "f32"; }),
            "verify: 'f32' cannot name a dim parameter");
  EXPECT_EQ(After([](Graph& g) {
              g.dim_params.push_back({"n", 2});
            }),
            "verify: dim parameter 'n' appears twice");
  EXPECT_EQ(After([](Graph& g) {
              g.dim_exprs[{NodeId(0), 0, 1}] = DimExpr{0, {{0, 1}}};
            }),
            "verify: dim expression for %0.0 dim 1, which does not exist");
  EXPECT_EQ(After([](Graph& g) {
              g.dim_exprs[{NodeId(9), 0, 0}] = DimExpr{0, {{0, 1}}};
            }),
            "verify: dim expression for %9.0 dim 0, which does not exist");
  EXPECT_EQ(After([](Graph& g) {
              g.dim_exprs[{NodeId(1), 0, 0}] = DimExpr{1, {{0, 1}}};
            }),
            "verify: %1 = neg: dim expression n+1 is 3, not 2");
  EXPECT_EQ(After([](Graph& g) {
              g.dim_exprs[{NodeId(1), 0, 0}] = DimExpr{2, {}};
            }),
            "verify: %1 = neg: a dim expression without a parameter");
  EXPECT_EQ(After([](Graph& g) {
              g.dim_exprs[{NodeId(1), 0, 0}] = DimExpr{2, {{0, 0}}};
            }),
            "verify: %1 = neg: a dim expression that is not normal");
  EXPECT_EQ(After([](Graph& g) {
              g.dim_exprs[{NodeId(1), 0, 0}] = DimExpr{0, {{1, 1}}};
            }),
            "verify: %1 = neg: a dim expression of parameter 1, of 1");
  EXPECT_EQ(After([](Graph& g) {
              g.attr_exprs[{NodeId(3), 0, 0}] = DimExpr{0, {{0, 2}}};
            }),
            "verify: %3 = iota: dim expression 2*n is 4, not 2");
  EXPECT_EQ(After([](Graph& g) {
              g.attr_exprs[{NodeId(3), 1, 0}] = DimExpr{0, {{0, 1}}};
            }),
            "verify: attribute expression for %3 attribute 1 position 0, which is no integer");
  EXPECT_EQ(After([](Graph& g) {
              g.attr_exprs[{NodeId(2), 7, 0}] = DimExpr{0, {{0, 1}}};
            }),
            "verify: attribute expression for %2 attribute 7 position 0, which is no integer");
}

TEST(Verify, RecursesIntoGraphAttributes) {
  Graph graph = ParseGraphUnverified(R"(
    %0 = input : f32[2]
    %1 = while %0 {condition=graph {
      %0 = input : f32[2]
      %1 = constant {value=true, dtype=bool} : bool[]
      return %1
    }, body=graph {
      %0 = input : f32[2]
      %1 = neg %0 : f32[3]
      return %0
    }} : f32[2]
    return %1)");
  EXPECT_EQ(VerifyError(graph),
            "verify: %1 = while: body: %1 = neg: its types are f32[3], inference gives f32[2]");
}

// Each level uses the one below twice; without memory of what was seen this would take 2^60 steps.
TEST(Verify, ChecksSharedBodiesOnce) {
  auto body = std::make_shared<const Graph>(ParseGraph("%0 = input : f32[2]\nreturn %0"));
  auto yes = std::make_shared<const Graph>(ParseGraph(
      "%0 = input : f32[2]\n%1 = constant {value=true, dtype=bool} : bool[]\nreturn %1"));
  for (int i = 0; i < 60; ++i) {
    Graph outer;
    GraphValue x = outer.AddInput(Shape(f32, {2}));
    for (int j = 0; j < 2; ++j) {
      x = {outer.AddNode(op_registry::Get("while"), {x}, {Attr(yes), Attr(body)}), 0};
    }
    outer.AddOutput(x);
    body = std::make_shared<const Graph>(std::move(outer));
  }
  Verify(*body);
}

}  // namespace
}  // namespace hammock
