#include "compiler/passes/make_explicit.h"

#include <gtest/gtest.h>

#include "hammock/ir/graph.h"

namespace hammock {
namespace {

TEST(MakeExplicit, WritesCastsAndBroadcastsAndDropsWhatIsUnused) {
  Graph graph = ParseGraph(
      "%0 = input : f32[2,3]\n"
      "%1 = input : i64[3]\n"
      "%2 = exp %0 : f32[2,3]\n"
      "%3 = add %0, %1 : f32[2,3]\n"
      "return %3");
  EXPECT_EQ(ToText(MakeExplicit(graph)),
            "%0 = input : f32[2,3]\n"
            "%1 = input : i64[3]\n"
            "%2 = cast %1 {dtype=f32} : f32[3]\n"
            "%3 = broadcast %2 {sizes=[2,3]} : f32[2,3]\n"
            "%4 = add %0, %3 : f32[2,3]\n"
            "return %4\n");
}

}  // namespace
}  // namespace hammock
