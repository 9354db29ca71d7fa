#include "compiler/sizes/skeleton.h"

#include <gtest/gtest.h>

namespace hammock {
namespace {

void InferLikeFirst(const InferCall& call) { call.out = {*call.in[0]}; }

// The names say nothing: `size` is no size here, and `reach` is one.
constinit const OpDef kReach = {
    .schema =
        "skeleton_test::reach(Tensor self, SymInt reach, SymInt[] far, SymInt? end, int size) "
        "-> Tensor",
    .infer = InferLikeFirst,
};
const OpRegistrar registrar(kReach);

Skeleton Of(const std::string& attrs) {
  Graph graph = ParseGraph("%0 = input : f32[7]\n%1 = skeleton_test::reach %0 {" + attrs +
                           "} : f32[7]\nreturn %1");
  return SkeletonOf(graph);
}

TEST(Skeleton, TypesOfTheSchemaSayWhichAttributesAreSizes) {
  Skeleton first = Of("reach=2, far=[3,4], end=5, size=6");
  EXPECT_EQ(first.sizes, (std::vector<int64_t>{7, 2, 3, 4, 5, 7}));
  EXPECT_EQ(Of("reach=8, far=[9,10], end=11, size=6").words, first.words);
  EXPECT_NE(Of("reach=2, far=[3,4], end=5, size=7").words, first.words);
  EXPECT_NE(Of("reach=2, far=[3,4], end=none, size=6").words, first.words);
  EXPECT_NE(Of("reach=2, far=[3], end=5, size=6").words, first.words);
}

TEST(Skeleton, SizesHavePlaces) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[7]
    %1 = skeleton_test::reach %0 {reach=2, far=[3,4], end=5, size=6} : f32[7]
    return %1)");
  std::vector<SizeSlot> slots = SizeSlotsOf(graph);
  ASSERT_EQ(slots.size(), 6u);
  std::vector<SizeSlot> attributes(slots.begin() + 1, slots.begin() + 5);
  SetSizes(graph.mutable_node(NodeId(1)), attributes, std::vector<int64_t>{20, 30, 40, 50});
  EXPECT_EQ(graph[NodeId(1)].attr("reach").integer(), 20);
  EXPECT_EQ(graph[NodeId(1)].attr("far").ints(), (std::vector<int64_t>{30, 40}));
  EXPECT_EQ(graph[NodeId(1)].attr("end").integer(), 50);
  EXPECT_EQ(graph[NodeId(1)].attr("size").integer(), 6);
}

}  // namespace
}  // namespace hammock
