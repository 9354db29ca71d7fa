#include "hammock/ir/shared_list.h"

#include <gtest/gtest.h>

#include "hammock/ir/graph.h"
#include "hammock/ir/op_def.h"

namespace hammock {
namespace {

TEST(SharedList, CopiesShareTheirValues) {
  const SharedList<GraphValue> list = {{NodeId(1), 0}, {NodeId(2), 1}};
  const SharedList<GraphValue> copy = list;
  EXPECT_EQ(copy.data(), list.data());
  EXPECT_EQ(copy, list);
  EXPECT_TRUE(SharedList<GraphValue>().empty());
  EXPECT_EQ(sizeof list, 8u);
}

TEST(SharedList, EqualTypesAndAttributesAreHeldOnce) {
  const SharedList<Shape> types = {Shape(f32, {2, 3})}, same = {Shape(f32, {2, 3})};
  EXPECT_EQ(types.data(), same.data());
  const SharedList<Attr> attrs = {Attr(1), Attr(Dims{2})}, equal = {Attr(1), Attr(Dims{2})};
  EXPECT_EQ(attrs.data(), equal.data());
  const SharedList<Attr> zero = {Attr(0.0)}, minus_zero = {Attr(-0.0)};
  EXPECT_NE(zero, minus_zero);
}

TEST(SharedList, NoThreadKeepsAGraph) {
  auto graph = std::make_shared<const Graph>();
  const std::weak_ptr<const Graph> seen = graph;
  { const SharedList<Attr> attrs = {Attr(std::move(graph))}; }
  EXPECT_TRUE(seen.expired());
}

TEST(SharedList, ChangesLeaveCopiesAsTheyAre) {
  SharedList<Shape> list = {Shape(f32, {2})};
  const SharedList<Shape> copy = list;
  list.Set(0, Shape(i64, {2}));
  list.push_back(Shape(f32, {}));
  EXPECT_EQ(copy, SharedList<Shape>({Shape(f32, {2})}));
  EXPECT_EQ(list, SharedList<Shape>({Shape(i64, {2}), Shape(f32, {})}));
  EXPECT_EQ(SharedList<Shape>({Shape(f32, {2})}).data(), copy.data());
}

TEST(SharedList, MapThatChangesNothingKeepsSharing) {
  SharedList<GraphValue> list = {{NodeId(1), 0}, {NodeId(2), 0}};
  const SharedList<GraphValue> copy = list;
  list.Map([](GraphValue value) { return value; });
  EXPECT_EQ(list.data(), copy.data());
  list.Map([](GraphValue value) { return GraphValue{value.node + 1, 0}; });
  EXPECT_EQ(list, SharedList<GraphValue>({{NodeId(2), 0}, {NodeId(3), 0}}));
  EXPECT_EQ(copy[0].node, NodeId(1));
}

TEST(SharedList, GraphsOfEqualNodesShareAllButTheNodes) {
  Graph graph;
  const GraphValue x = graph.AddInput(Shape(f32, {4}));
  graph.AddOutput({graph.AddNode(op_registry::Get("neg"), {x}), 0});
  const Graph copy = graph;
  EXPECT_EQ(copy[NodeId(1)].inputs.data(), graph[NodeId(1)].inputs.data());
  EXPECT_EQ(copy[NodeId(1)].types.data(), graph[NodeId(0)].types.data());
  EXPECT_LE(sizeof(GraphNode), 40u);
}

}  // namespace
}  // namespace hammock
