#include "compiler/widen_sums.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hammock
