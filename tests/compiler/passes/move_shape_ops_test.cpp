#include "compiler/passes/move_shape_ops.h"

#include <gtest/gtest.h>

#include "compiler/passes/remove_dead.h"

namespace hammock {
namespace {

std::string Moved(const char* text) {
  Graph graph = MoveShapeOps(ParseGraph(text));
  Verify(graph);
  EXPECT_EQ(ToText(MoveShapeOps(graph)), ToText(graph)) << "not idempotent";
  return ToText(RemoveDead(graph));
}

TEST(MoveShapeOps, MovesReshapesToTheResult) {
  EXPECT_EQ(Moved("%0 = input : f32[2,3]\n"
                  "%1 = exp %0 : f32[2,3]\n"
                  "%2 = reshape %1 {sizes=[6]} : f32[6]\n"
                  "%3 = reshape %0 {sizes=[6]} : f32[6]\n"
                  "%4 = add %2, %3 : f32[6]\n"
                  "%5 = constant {value=2.0, dtype=f32} : f32[]\n"
                  "%6 = broadcast %5 {sizes=[6]} : f32[6]\n"
                  "%7 = mul %4, %6 : f32[6]\n"
                  "%8 = cast %7 {dtype=f16} : f16[6]\n"
                  "return %8\n"),
            "%0 = input : f32[2,3]\n"
            "%1 = exp %0 : f32[2,3]\n"
            "%2 = add %1, %0 : f32[2,3]\n"
            "%3 = constant {value=2.0, dtype=f32} : f32[]\n"
            "%4 = broadcast %3 {sizes=[2,3]} : f32[2,3]\n"
            "%5 = mul %2, %4 : f32[2,3]\n"
            "%6 = cast %5 {dtype=f16} : f16[2,3]\n"
            "%7 = reshape %6 {sizes=[6]} : f16[6]\n"
            "return %7\n");
}

TEST(MoveShapeOps, MovesEqualPermutes) {
  EXPECT_EQ(Moved("%0 = input : f32[2,2]\n"
                  "%1 = exp %0 : f32[2,2]\n"
                  "%2 = permute %1 {dims=[1,0]} : f32[2,2]\n"
                  "%3 = neg %2 : f32[2,2]  @ model.cpp:4\n"
                  "return %3\n"),
            "%0 = input : f32[2,2]\n"
            "%1 = exp %0 : f32[2,2]\n"
            "%2 = neg %1 : f32[2,2]\n"
            "%3 = permute %2 {dims=[1,0]} : f32[2,2]\n"
            "return %3\n");
}

void ExpectUnchanged(const char* text) { EXPECT_EQ(Moved(text), text); }

TEST(MoveShapeOps, LeavesWhatIsNoChain) {
  ExpectUnchanged(  // next to its source it costs nothing
      "%0 = input : f32[2,3]\n"
      "%1 = reshape %0 {sizes=[6]} : f32[6]\n"
      "%2 = exp %1 : f32[6]\n"
      "return %2\n");
  ExpectUnchanged(  // different permutes
      "%0 = input : f32[2,2,2]\n"
      "%1 = exp %0 : f32[2,2,2]\n"
      "%2 = permute %1 {dims=[1,0,2]} : f32[2,2,2]\n"
      "%3 = permute %1 {dims=[0,2,1]} : f32[2,2,2]\n"
      "%4 = add %2, %3 : f32[2,2,2]\n"
      "return %4\n");
  ExpectUnchanged(  // an operand that has the result's sizes already
      "%0 = input : f32[2,3]\n"
      "%1 = input : f32[6]\n"
      "%2 = exp %0 : f32[2,3]\n"
      "%3 = reshape %2 {sizes=[6]} : f32[6]\n"
      "%4 = add %3, %1 : f32[6]\n"
      "return %4\n");
  ExpectUnchanged(
      "%0 = input : f32[2,3]\n"
      "%1 = exp %0 : f32[2,3]\n"
      "%2 = reshape %1 {sizes=[6]} : f32[6]\n"
      "%3 = barrier %2 : f32[6]\n"
      "%4 = exp %3 : f32[6]\n"
      "return %4\n");
}

}  // namespace
}  // namespace hammock
