#include "compiler/passes/simplify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/passes/pass.h"
#include "compiler/passes/remove_dead.h"

namespace hammock {
namespace {

std::string Simplified(const std::string& text) {
  Graph graph = Simplify(ParseGraph(text));
  Verify(graph);
  EXPECT_EQ(ToText(RemoveDead(Simplify(graph))), ToText(RemoveDead(graph))) << "not idempotent";
  return ToText(RemoveDead(graph));
}

/// `lines` compute %9 from the input %0 : `type`; it is the input itself afterwards.
void ExpectGone(const std::string& type, const std::string& lines) {
  std::string text = "%0 = input : " + type + "\n" + lines + "\nreturn %9";
  EXPECT_EQ(Simplified(text), "%0 = input : " + type + "\nreturn %0\n") << text;
}

void ExpectGraph(const std::string& before, const std::string& after) {
  EXPECT_EQ(Simplified(before), after) << before;
}

void ExpectUnchanged(const std::string& text) { ExpectGraph(text, text); }

/// A binary op of x, `type`[2], and a number.
std::string WithNumber(const std::string& op, const std::string& type, const std::string& number,
                       bool number_first = false) {
  return fmt::format(
      "%0 = input : {0}[2]\n"
      "%1 = constant {{value={2}, dtype={0}}} : {0}[]\n"
      "%2 = broadcast %1 {{sizes=[2]}} : {0}[2]\n"
      "%3 = {1} {3} : {0}[2]\n"
      "return %3\n",
      type, op, number, number_first ? "%2, %0" : "%0, %2");
}

TEST(Simplify, RemovesArithmeticThatChangesNothing) {
  struct Case {
    const char *op, *type, *number;
    bool both_sides;
  };
  for (Case c : {Case{"mul", "f32", "1.0:f32", true},
                 {"mul", "i64", "1", true},
                 {"div", "f32", "1.0:f32", false},
                 {"pow", "f32", "1.0:f32", false},
                 {"sub", "f32", "0.0:f32", false},
                 {"add", "f32", "-0.0:f32", true},
                 {"add", "i32", "0:i32", true},
                 {"sub", "i32", "0:i32", false},
                 {"floor_divide", "i64", "1", false},
                 {"bitwise_or", "i64", "0", true},
                 {"bitwise_xor", "i64", "0", true},
                 {"bitwise_left_shift", "i64", "0", false}}) {
    std::string gone = fmt::format("%0 = input : {}[2]\nreturn %0\n", c.type);
    ExpectGraph(WithNumber(c.op, c.type, c.number), gone);
    std::string swapped = WithNumber(c.op, c.type, c.number, true);
    if (c.both_sides) {
      ExpectGraph(swapped, gone);
    } else {
      ExpectUnchanged(swapped);
    }
  }
}

TEST(Simplify, KeepsArithmeticThatMayChangeABit) {
  ExpectUnchanged(WithNumber("add", "f32", "0.0:f32"));   // -0.0 becomes 0.0
  ExpectUnchanged(WithNumber("sub", "f32", "-0.0:f32"));  // the same
  ExpectUnchanged(WithNumber("mul", "f32", "0.0:f32"));   // NaN, inf, -0.0
  ExpectUnchanged(WithNumber("floor_divide", "f32", "1.0:f32"));
  ExpectUnchanged(WithNumber("mul", "f32", "nan:f32"));
}

TEST(Simplify, MakesIntegersTimesZeroZero) {
  ExpectGraph(WithNumber("mul", "i64", "0"),
              "%0 = input : i64[2]\n"
              "%1 = constant {value=0, dtype=i64} : i64[]\n"
              "%2 = broadcast %1 {sizes=[2]} : i64[2]\n"
              "return %2\n");
}

TEST(Simplify, LosesNoError) {
  const char* divides =
      "%0 = input : i64[2]\n"
      "%1 = constant {value=0, dtype=i64} : i64[]\n"
      "%2 = broadcast %1 {sizes=[2]} : i64[2]\n"
      "%3 = floor_divide %0, %0 : i64[2]\n";
  ExpectUnchanged(divides + std::string("%4 = mul %3, %2 : i64[2]\nreturn %4\n"));
  ExpectUnchanged(divides + std::string("%4 = constant {value=true, dtype=bool} : bool[]\n"
                                        "%5 = broadcast %4 {sizes=[2]} : bool[2]\n"
                                        "%6 = where %5, %2, %3 : i64[2]\nreturn %6\n"));
  // Nothing is divided where there are no elements.
  ExpectUnchanged(
      "%0 = input : i64[]\n"
      "%1 = broadcast %0 {sizes=[0]} : i64[0]\n"
      "%2 = floor_divide %1, %1 : i64[0]\n"
      "return %2\n");
}

TEST(Simplify, RemovesPairsAndOwnTypes) {
  ExpectGone("f32[2]", "%1 = neg %0 : f32[2]\n%9 = neg %1 : f32[2]");
  ExpectGone("bool[2]", "%1 = logical_not %0 : bool[2]\n%9 = logical_not %1 : bool[2]");
  ExpectGone("i32[2]", "%1 = bitwise_not %0 : i32[2]\n%9 = bitwise_not %1 : i32[2]");
  ExpectGone("f32[2]", "%9 = cast %0 {dtype=f32} : f32[2]");
  ExpectGone("f32[2]", "%1 = cast %0 {dtype=f64} : f64[2]\n%9 = cast %1 {dtype=f32} : f32[2]");
  ExpectGone("i32[2]", "%1 = cast %0 {dtype=f64} : f64[2]\n%9 = cast %1 {dtype=i32} : i32[2]");
}

TEST(Simplify, JoinsCastsOnlyWhereNothingIsLost) {
  auto chain = [](const char* from, const char* via, const char* to) {
    return fmt::format(
        "%0 = input : {0}[2]\n%1 = cast %0 {{dtype={1}}} : {1}[2]\n"
        "%2 = cast %1 {{dtype={2}}} : {2}[2]\nreturn %2\n",
        from, via, to);
  };
  auto direct = [](const char* from, const char* to) {
    return fmt::format("%0 = input : {0}[2]\n%1 = cast %0 {{dtype={1}}} : {1}[2]\nreturn %1\n",
                       from, to);
  };
  ExpectGraph(chain("i8", "i32", "i64"), direct("i8", "i64"));
  ExpectGraph(chain("u8", "bf16", "f32"), direct("u8", "f32"));
  ExpectGraph(chain("bool", "f16", "i8"), direct("bool", "i8"));
  ExpectGraph(chain("f16", "f32", "f64"), direct("f16", "f64"));
  ExpectGraph(chain("f32", "f64", "bool"), direct("f32", "bool"));
  ExpectUnchanged(chain("f64", "f32", "f64"));
  ExpectUnchanged(chain("f32", "bf16", "f32"));
  ExpectUnchanged(chain("f16", "bf16", "f32"));
  ExpectUnchanged(chain("i32", "f32", "i32"));
  ExpectUnchanged(chain("i8", "u8", "i32"));
  ExpectUnchanged(chain("u8", "i8", "i32"));
  ExpectUnchanged(chain("f32", "f64", "i8"));
  ExpectUnchanged(chain("i32", "f64", "i8"));
}

TEST(Simplify, RemovesShapeOpsThatMoveNothing) {
  ExpectGone("f32[2,3]", "%9 = reshape %0 {sizes=[2,3]} : f32[2,3]");
  ExpectGone("f32[2,3]",
             "%1 = reshape %0 {sizes=[6]} : f32[6]\n"
             "%2 = reshape %1 {sizes=[3,2]} : f32[3,2]\n"
             "%9 = reshape %2 {sizes=[2,3]} : f32[2,3]");
  ExpectGone("f32[2,3]", "%9 = broadcast %0 {sizes=[2,3]} : f32[2,3]");
  ExpectGone("f32[2,3]", "%9 = permute %0 {dims=[0,1]} : f32[2,3]");
  ExpectGone("f32[2,3,4]",
             "%1 = permute %0 {dims=[2,0,1]} : f32[4,2,3]\n"
             "%9 = permute %1 {dims=[1,2,0]} : f32[2,3,4]");
  ExpectGone("f32[2,3]", "%9 = slice %0 {dim=1, start=0, size=3, step=1} : f32[2,3]");
  ExpectGone("f32[2,3]",
             "%1 = constant {value=1.0, dtype=f32} : f32[]\n"
             "%9 = pad_constant %0, %1 {low=[0,0], high=[0,0]} : f32[2,3]");
  ExpectGone("f32[2,3]",
             "%1 = flip %0 {dims=[0,1]} : f32[2,3]\n"
             "%9 = flip %1 {dims=[1,0]} : f32[2,3]");
  ExpectGone("f32[1,3]", "%9 = flip %0 {dims=[0]} : f32[1,3]");
  ExpectGone("f32[2,3]", "%9 = concat %0 {dim=1} : f32[2,3]");
  ExpectGone("f32[2,3]",
             "%1 = slice %0 {dim=1, start=0, size=0, step=1} : f32[2,0]\n"
             "%9 = concat %1, %0 {dim=1} : f32[2,3]");
}

TEST(Simplify, JoinsShapeOps) {
  ExpectGraph(
      "%0 = input : f32[20]\n"
      "%1 = slice %0 {dim=0, start=3, size=8, step=2} : f32[8]\n"
      "%2 = slice %1 {dim=0, start=1, size=3, step=3} : f32[3]\n"
      "return %2\n",
      "%0 = input : f32[20]\n"
      "%1 = slice %0 {dim=0, start=5, size=3, step=6} : f32[3]\n"
      "return %1\n");
  ExpectGraph(
      "%0 = input : f32[3]\n"
      "%1 = broadcast %0 {sizes=[2,3]} : f32[2,3]\n"
      "%2 = broadcast %1 {sizes=[4,2,3]} : f32[4,2,3]\n"
      "return %2\n",
      "%0 = input : f32[3]\n"
      "%1 = broadcast %0 {sizes=[4,2,3]} : f32[4,2,3]\n"
      "return %1\n");
  ExpectGraph(
      "%0 = input : f32[3]\n"
      "%1 = reshape %0 {sizes=[1,3]} : f32[1,3]\n"
      "%2 = broadcast %1 {sizes=[2,3]} : f32[2,3]\n"
      "return %2\n",
      "%0 = input : f32[3]\n"
      "%1 = broadcast %0 {sizes=[2,3]} : f32[2,3]\n"
      "return %1\n");
  ExpectGraph(
      "%0 = input : f32[2,1,3]\n"
      "%1 = permute %0 {dims=[1,0,2]} : f32[1,2,3]\n"
      "return %1\n",
      "%0 = input : f32[2,1,3]\n"
      "%1 = reshape %0 {sizes=[1,2,3]} : f32[1,2,3]\n"
      "return %1\n");
  ExpectGraph(
      "%0 = input : f32[2,3]\n"
      "%1 = broadcast %0 {sizes=[1,2,3]} : f32[1,2,3]\n"
      "return %1\n",
      "%0 = input : f32[2,3]\n"
      "%1 = reshape %0 {sizes=[1,2,3]} : f32[1,2,3]\n"
      "return %1\n");
  ExpectUnchanged(
      "%0 = input : f32[3,1]\n"
      "%1 = reshape %0 {sizes=[3]} : f32[3]\n"
      "%2 = broadcast %1 {sizes=[3,3]} : f32[3,3]\n"
      "return %2\n");
}

TEST(Simplify, TakesConstantStarts) {
  ExpectGraph(
      "%0 = input : f32[6,2]\n"
      "%1 = constant {value=3, dtype=i64} : i64[]\n"
      "%2 = dynamic_slice %0, %1 {dim=0, size=2, step=1} : f32[2,2]\n"
      "%3 = dynamic_update_slice %0, %2, %1 {dim=0, step=1} : f32[6,2]\n"
      "return %3\n",
      "%0 = input : f32[6,2]\n"
      "%1 = slice %0 {dim=0, start=3, size=2, step=1} : f32[2,2]\n"
      "%2 = update_slice %0, %1 {dim=0, start=3, step=1} : f32[6,2]\n"
      "return %2\n");
  ExpectUnchanged(
      "%0 = input : f32[6,2]\n"
      "%1 = constant {value=5, dtype=i64} : i64[]\n"
      "%2 = dynamic_slice %0, %1 {dim=0, size=2, step=1} : f32[2,2]\n"
      "return %2\n");
}

/// The gradient of a value that was cut into parts.
std::string SumOfParts(const char* zero, const char* second_start, const char* end) {
  return fmt::format(
      "%0 = input : f32[2,2]\n"
      "%1 = input : f32[2,4]\n"
      "%2 = constant {{value={0}, dtype=f32}} : f32[]\n"
      "%3 = broadcast %2 {{sizes=[2,6]}} : f32[2,6]\n"
      "%4 = update_slice %3, %0 {{dim=1, start=4, step=1}} : f32[2,6]\n"
      "%5 = update_slice %3, %1 {{dim=1, start={1}, step=1}} : f32[2,6]\n"
      "%6 = add %4, %5 : f32[2,6]\n"
      "{2}",
      zero, second_start, end);
}

TEST(Simplify, JoinsPartsOfZeros) {
  ExpectGraph(SumOfParts("0.0:f32", "0", "return %6\n"),
              "%0 = input : f32[2,2]\n"
              "%1 = input : f32[2,4]\n"
              "%2 = constant {value=0.0:f32, dtype=f32} : f32[]\n"
              "%3 = broadcast %2 {sizes=[2,4]} : f32[2,4]\n"
              "%4 = add %1, %3 : f32[2,4]\n"
              "%5 = broadcast %2 {sizes=[2,2]} : f32[2,2]\n"
              "%6 = add %0, %5 : f32[2,2]\n"
              "%7 = concat %4, %6 {dim=1} : f32[2,6]\n"
              "return %7\n");
  ExpectUnchanged(SumOfParts("0.0:f32", "1", "return %6\n"));   // they overlap
  ExpectUnchanged(SumOfParts("-0.0:f32", "0", "return %6\n"));  // x + -0.0 keeps -0.0
  ExpectUnchanged(SumOfParts("1.0:f32", "0", "return %6\n"));
}

TEST(Simplify, GathersBeforeItComputes) {
  ExpectGraph(
      "%0 = input : f32[3,64]\n"
      "%1 = input : f32[3,1]\n"
      "%2 = broadcast %1 {sizes=[3,64]} : f32[3,64]\n"
      "%3 = sub %0, %2 : f32[3,64]\n"
      "%4 = cast %3 {dtype=f64} : f64[3,64]\n"
      "%5 = input : i64[3,1]\n"
      "%6 = gather %4, %5 {dim=1} : f64[3,1]\n"
      "return %6\n",
      "%0 = input : f32[3,64]\n"
      "%1 = input : f32[3,1]\n"
      "%2 = input : i64[3,1]\n"
      "%3 = gather %0, %2 {dim=1} : f32[3,1]\n"
      "%4 = sub %3, %1 : f32[3,1]\n"
      "%5 = cast %4 {dtype=f64} : f64[3,1]\n"
      "return %5\n");
  ExpectUnchanged(
      "%0 = input : f32[3,4]\n"
      "%1 = exp %0 : f32[3,4]\n"
      "%2 = input : i64[3,4]\n"
      "%3 = gather %1, %2 {dim=1} : f32[3,4]\n"
      "return %3\n");
}

TEST(Simplify, MovesNoElementsOfARepeatedOne) {
  ExpectGraph(
      "%0 = input : f32[]\n"
      "%1 = broadcast %0 {sizes=[2,3]} : f32[2,3]\n"
      "%2 = permute %1 {dims=[1,0]} : f32[3,2]\n"
      "%3 = reshape %2 {sizes=[6]} : f32[6]\n"
      "%4 = slice %3 {dim=0, start=1, size=4, step=1} : f32[4]\n"
      "%5 = concat %4, %4 {dim=0} : f32[8]\n"
      "return %5\n",
      "%0 = input : f32[]\n"
      "%1 = broadcast %0 {sizes=[8]} : f32[8]\n"
      "return %1\n");
}

TEST(Simplify, KnowsChoices) {
  auto choice = [](const char* condition, const char* operands) {
    return fmt::format(
        "%1 = input : f32[2]\n"
        "%2 = constant {{value={}, dtype=bool}} : bool[]\n"
        "%3 = broadcast %2 {{sizes=[2]}} : bool[2]\n"
        "%4 = where %3, {} : f32[2]\nreturn %4",
        condition, operands);
  };
  auto returns = [](const char* which) {
    return fmt::format("%0 = input : f32[2]\n%1 = input : f32[2]\nreturn {}\n", which);
  };
  ExpectGraph("%0 = input : f32[2]\n" + choice("true", "%0, %1"), returns("%0"));
  ExpectGraph("%0 = input : f32[2]\n" + choice("false", "%0, %1"), returns("%1"));
  ExpectGraph(
      "%0 = input : f32[2]\n%1 = input : bool[2]\n%2 = where %1, %0, %0 : f32[2]\nreturn %2",
      "%0 = input : f32[2]\n%1 = input : bool[2]\nreturn %0\n");
}

TEST(Simplify, ReducesNothingOverSizesOfOne) {
  auto reduce = [](const char* op, const char* dtype) {
    return fmt::format(
        "%0 = input : {1}[1,3]\n%1 = {0} %0 {{dims=[0], keepdim=false}} : {1}[3]\n"
        "return %1\n",
        op, dtype);
  };
  auto reshape = [](const char* dtype) {
    return fmt::format("%0 = input : {0}[1,3]\n%1 = reshape %0 {{sizes=[3]}} : {0}[3]\nreturn %1\n",
                       dtype);
  };
  for (const char* op : {"reduce_max", "reduce_min", "reduce_prod"}) {
    ExpectGraph(reduce(op, "f32"), reshape("f32"));
  }
  ExpectGraph(reduce("reduce_sum", "i64"), reshape("i64"));
  ExpectGraph(reduce("reduce_any", "bool"), reshape("bool"));
  ExpectUnchanged(reduce("reduce_sum", "f32"));  // 0.0 + -0.0 is 0.0
}

TEST(Simplify, PutsTransposesIntoTheProduct) {
  ExpectGraph(
      "%0 = input : f32[5,3]\n"
      "%1 = input : f32[4,5]\n"
      "%2 = permute %0 {dims=[1,0]} : f32[3,5]\n"
      "%3 = permute %1 {dims=[1,0]} : f32[5,4]\n"
      "%4 = dot_general %2, %3 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : "
      "f32[3,4]\n"
      "return %4\n",
      "%0 = input : f32[5,3]\n"
      "%1 = input : f32[4,5]\n"
      "%2 = dot_general %0, %1 {a_contract=[0], b_contract=[1], a_batch=[], b_batch=[]} : "
      "f32[3,4]\n"
      "return %2\n");
  // The free dims would come in another order.
  ExpectUnchanged(
      "%0 = input : f32[2,3,5]\n"
      "%1 = input : f32[5]\n"
      "%2 = permute %0 {dims=[1,0,2]} : f32[3,2,5]\n"
      "%3 = dot_general %2, %1 {a_contract=[2], b_contract=[0], a_batch=[], b_batch=[]} : "
      "f32[3,2]\n"
      "return %3\n");
}

TEST(Simplify, ComputesBeforeItRepeats) {
  ExpectGraph(
      "%0 = input : f32[]\n"
      "%1 = input : f32[1]\n"
      "%2 = broadcast %0 {sizes=[2,3]} : f32[2,3]\n"
      "%3 = broadcast %1 {sizes=[2,3]} : f32[2,3]\n"
      "%4 = add %2, %3 : f32[2,3]  @ model.cpp:5\n"
      "return %4\n",
      "%0 = input : f32[]\n"
      "%1 = input : f32[1]\n"
      "%2 = reshape %1 {sizes=[]} : f32[]\n"
      "%3 = add %0, %2 : f32[]\n"
      "%4 = broadcast %3 {sizes=[2,3]} : f32[2,3]\n"
      "return %4\n");
  ExpectGraph(
      "%0 = input : f32[3,1]\n"
      "%1 = input : f32[]\n"
      "%2 = broadcast %0 {sizes=[3,4]} : f32[3,4]\n"
      "%3 = broadcast %1 {sizes=[3,4]} : f32[3,4]\n"
      "%4 = mul %2, %3 : f32[3,4]\n"
      "%5 = exp %4 : f32[3,4]\n"
      "return %5\n",
      "%0 = input : f32[3,1]\n"
      "%1 = input : f32[]\n"
      "%2 = broadcast %1 {sizes=[3,1]} : f32[3,1]\n"
      "%3 = mul %0, %2 : f32[3,1]\n"
      "%4 = exp %3 : f32[3,1]\n"
      "%5 = broadcast %4 {sizes=[3,4]} : f32[3,4]\n"
      "return %5\n");
  ExpectUnchanged(
      "%0 = input : f32[3,1]\n"
      "%1 = input : f32[4]\n"
      "%2 = broadcast %0 {sizes=[3,4]} : f32[3,4]\n"
      "%3 = broadcast %1 {sizes=[3,4]} : f32[3,4]\n"
      "%4 = mul %2, %3 : f32[3,4]\n"
      "return %4\n");
}

TEST(Simplify, DoesNotLookThroughBarriers) {
  ExpectUnchanged(
      "%0 = input : f32[2]\n"
      "%1 = neg %0 : f32[2]\n"
      "%2 = barrier %1 : f32[2]\n"
      "%3 = neg %2 : f32[2]\n"
      "return %3\n");
}

TEST(Simplify, KeepsLocationsAndGoesIntoBodies) {
  const Pass passes[] = {{"simplify", Simplify}, {"remove_dead", RemoveDead}};
  Graph graph = RunPasses(passes, ParseGraph(R"(
    %0 = input : f32[2]
    %1 = loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[2]
      %2 = reshape %1 {sizes=[1,2]} : f32[1,2]
      %3 = reshape %2 {sizes=[2,1]} : f32[2,1]  @ model.cpp:7
      %4 = reshape %3 {sizes=[2]} : f32[2]
      %5 = neg %4 : f32[2]
      return %5
    }, count=3, num_carried=1, num_stacked_in=0} : f32[2]
    %2 = reshape %1 {sizes=[1,2]} : f32[1,2]
    %3 = reshape %2 {sizes=[2,1]} : f32[2,1]  @ model.cpp:9
    return %3)"));
  EXPECT_EQ(graph[NodeId(1)].attrs[0].graph().size(), 3);
  std::string text = ToText(graph, {.locations = true});
  EXPECT_NE(text.find("reshape %1 {sizes=[2,1]} : f32[2,1]  @ model.cpp:9"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace hammock
