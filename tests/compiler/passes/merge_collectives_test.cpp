#include "compiler/passes/merge_collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "hammock/config.h"

namespace hammock {
namespace {

void ExpectMerged(const char* before, const char* after) {
  EXPECT_EQ(ToText(MergeCollectives(ParseGraph(before))), ToText(ParseGraph(after)));
}
void ExpectSame(const char* graph) { ExpectMerged(graph, graph); }

TEST(MergeCollectives, SendsAllReducesTogether) {
  ExpectMerged(R"(
    %0 = input : f32[2]
    %1 = input : f32[3,1]
    %2 = all_reduce %0 {reduction="sum", group="g", size=2} : f32[2]
    %3 = neg %2 : f32[2]
    %4 = exp %1 : f32[3,1]
    %5 = all_reduce %4 {reduction="sum", group="g", size=2} : f32[3,1]
    return %3, %5)",
               R"(
    %0 = input : f32[2]
    %1 = input : f32[3,1]
    %2 = exp %1 : f32[3,1]
    %3 = reshape %2 {sizes=[3]} : f32[3]
    %4 = concat %0, %3 {dim=0} : f32[5]
    %5 = _merged_collective %4 {kind="all_reduce", splits=[2,3], reduction="sum", group="g", size=2} : f32[5]
    %6 = slice %5 {dim=0, start=0, size=2, step=1} : f32[2]
    %7 = slice %5 {dim=0, start=2, size=3, step=1} : f32[3]
    %8 = reshape %7 {sizes=[3,1]} : f32[3,1]
    %9 = neg %6 : f32[2]
    return %9, %8)");
}

TEST(MergeCollectives, HasNoLimitOfTheirNumber) {
  std::string text = "%0 = input : f32[2]\n", results = "return %1";
  for (int i = 1; i <= 20; ++i) {
    text += "%" + std::to_string(i) +
            " = all_reduce %0 {reduction=\"sum\", group=\"g\", size=2} : f32[2]\n";
    if (i > 1) results += ", %" + std::to_string(i);
  }
  const Graph merged = MergeCollectives(ParseGraph(text + results));
  EXPECT_EQ(std::ranges::count_if(
                merged.nodes(),
                [](const GraphNode& node) { return node.op->effect == Effect::kOrdered; }),
            1);
}

TEST(MergeCollectives, SendsShardsTogether) {
  ExpectMerged(R"(
    %0 = input : f32[2]
    %1 = input : f32[3]
    %2 = all_gather %0 {group="g", size=2} : f32[4]
    %3 = all_gather %1 {group="g", size=2} : f32[6]
    return %2, %3)",
               R"(
    %0 = input : f32[2]
    %1 = input : f32[3]
    %2 = reshape %0 {sizes=[1,2]} : f32[1,2]
    %3 = reshape %1 {sizes=[1,3]} : f32[1,3]
    %4 = concat %2, %3 {dim=1} : f32[1,5]
    %5 = _merged_collective %4 {kind="all_gather", splits=[2,3], reduction="", group="g", size=2} : f32[2,5]
    %6 = slice %5 {dim=1, start=0, size=2, step=1} : f32[2,2]
    %7 = reshape %6 {sizes=[4]} : f32[4]
    %8 = slice %5 {dim=1, start=2, size=3, step=1} : f32[2,3]
    %9 = reshape %8 {sizes=[6]} : f32[6]
    return %7, %9)");
}

TEST(MergeCollectives, MakesAnAllReduceOfItsTwoHalves) {
  ExpectMerged(R"(
    %0 = input : f32[4]
    %1 = reduce_scatter %0 {reduction="mean", group="g", size=2} : f32[2]
    %2 = all_gather %1 {group="g", size=2} : f32[4]
    return %2)",
               R"(
    %0 = input : f32[4]
    %1 = _merged_collective %0 {kind="reduce_scatter_all_gather", splits=[], reduction="mean", group="g", size=2} : f32[4]
    return %1)");
}

TEST(MergeCollectives, LeavesHalvesWhoseShardsAreUsed) {
  ExpectSame(R"(
    %0 = input : f32[4]
    %1 = reduce_scatter %0 {reduction="sum", group="g", size=2} : f32[2]
    %2 = all_gather %1 {group="g", size=2} : f32[4]
    return %1, %2)");
}

TEST(MergeCollectives, LeavesCollectivesThatNeedEachOther) {
  ExpectSame(R"(
    %0 = input : f32[2]
    %1 = all_reduce %0 {reduction="sum", group="g", size=2} : f32[2]
    %2 = neg %1 : f32[2]
    %3 = all_reduce %2 {reduction="sum", group="g", size=2} : f32[2]
    return %3)");
}

TEST(MergeCollectives, LeavesWhatDiffersOrIsApart) {
  ExpectSame(R"(
    %0 = input : f32[2]
    %1 = all_reduce %0 {reduction="sum", group="g", size=2} : f32[2]
    %2 = all_reduce %0 {reduction="max", group="g", size=2} : f32[2]
    %3 = all_reduce %0 {reduction="sum", group="g", size=2} : f32[2]
    %4 = all_reduce %0 {reduction="sum", group="h", size=2} : f32[2]
    return %1, %2, %3, %4)");
}

// Where ranks have not merged alike, one without elements would be waited for by some of them only.
TEST(MergeCollectives, LeavesWhatHasNoElements) {
  ExpectSame(R"(
    %0 = input : f32[2]
    %1 = input : f32[0]
    %2 = all_reduce %0 {reduction="sum", group="g", size=2} : f32[2]
    %3 = all_reduce %1 {reduction="sum", group="g", size=2} : f32[0]
    return %2, %3)");
}

TEST(MergeCollectives, MovesNothingPastABodyWithCollectives) {
  ExpectSame(R"(
    %0 = input : f32[4]
    %1 = reduce_scatter %0 {reduction="sum", group="g", size=2} : f32[2]
    %2 = loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[4]
      %2 = all_reduce %1 {reduction="sum", group="g", size=2} : f32[4]
      return %2
    }, count=2, num_carried=1, num_stacked_in=0} : f32[4]
    %3 = all_gather %1 {group="g", size=2} : f32[4]
    return %2, %3)");
}

TEST(MergeCollectives, KeepsToTheSizeOfBuckets) {
  config::Override bytes("distributed.bucket_bytes", "12");
  ExpectSame(R"(
    %0 = input : f32[2]
    %1 = all_reduce %0 {reduction="sum", group="g", size=2} : f32[2]
    %2 = all_reduce %0 {reduction="sum", group="g", size=2} : f32[2]
    return %1, %2)");
}

}  // namespace
}  // namespace hammock
