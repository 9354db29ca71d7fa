#include "compiler/passes/widen_sums.h"

#include <gtest/gtest.h>

#include "compiler/passes/pass.h"

namespace hammock {
namespace {

TEST(WidenSums, ProductsOfFloatsAreMadeInDoubles) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[8,16]
    %1 = input : f32[16,4]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,4]
    return %2)");
  EXPECT_EQ(ToText(WidenSums(graph)),
            "%0 = input : f32[8,16]\n"
            "%1 = input : f32[16,4]\n"
            "%2 = cast %0 {dtype=f64} : f64[8,16]\n"
            "%3 = cast %1 {dtype=f64} : f64[16,4]\n"
            "%4 = dot_general %2, %3 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : "
            "f64[8,4]\n"
            "%5 = cast %4 {dtype=f32} : f32[8,4]\n"
            "return %5\n");
}

TEST(WidenSums, OtherTypesStay) {
  for (const char* type : {"f64", "i32", "bf16"}) {
    std::string text =
        "%0 = input : T[4,4]\n"
        "%1 = dot_general %0, %0 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : "
        "T[4,4]\n"
        "return %1\n";
    for (size_t at; (at = text.find("T[")) != std::string::npos;) text.replace(at, 1, type);
    EXPECT_EQ(ToText(WidenSums(ParseGraph(text))), text);
  }
}

TEST(WidenSums, GoesIntoBodies) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[4,4]
    %1 = input : f32[4,4]
    %2 = loop %0, %1 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[4,4]
      %2 = input : f32[4,4]
      %3 = dot_general %1, %2 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[4,4]
      return %3
    }, count=3, num_carried=1, num_stacked_in=0} : f32[4,4]
    return %2)");
  Graph widened = RunPass({"widen_sums", WidenSums}, graph);
  Verify(widened);
  EXPECT_EQ(ToText(widened.nodes().back().attrs[0].graph()),
            "%0 = input : i64[]\n"
            "%1 = input : f32[4,4]\n"
            "%2 = input : f32[4,4]\n"
            "%3 = cast %1 {dtype=f64} : f64[4,4]\n"
            "%4 = cast %2 {dtype=f64} : f64[4,4]\n"
            "%5 = dot_general %3, %4 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : "
            "f64[4,4]\n"
            "%6 = cast %5 {dtype=f32} : f32[4,4]\n"
            "return %6\n");
}

}  // namespace
}  // namespace hammock
