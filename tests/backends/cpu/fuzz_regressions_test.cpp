// Graphs on which the CPU backend was once wrong, made small by hand.
#include <gtest/gtest.h>

#include "backends/cpu/compiled.h"
#include "fuzz/judge.h"

namespace hammock::fuzz {
namespace {

struct Once {
  const char* name;  ///< what must hold
  const char* graph;
};

const Once kCases[] = {
    {"EmptyLoopsAreNotSplit", R"(
      %0 = input : f32[3]
      %1 = slice %0 {dim=0, start=0, size=0, step=1} : f32[0]
      %2 = exp %1 : f32[0]
      %3 = exp %0 : f32[3]
      return %2, %3)"},
    {"ASingleNumberIsStoredBesideAnEmptyTensor", R"(
      %0 = input : f32[]
      %1 = round %0 : f32[]
      %2 = broadcast %1 {sizes=[0]} : f32[0]
      %3 = neg %2 : f32[0]
      return %1, %3)"},
    {"ReducingNoDimsKeepsWhichResultItIs", R"(
      %0 = input : f32[5]
      %1:2 = sort %0 {dim=0, descending=true, stable=true} : f32[5], i64[5]
      %2 = reduce_max %1.1 {dims=[], keepdim=false} : i64[5]
      %3 = neg %2 : i64[5]
      return %3, %2)"},
    {"ReducingNothingReadsNothing", R"(
      %0 = input : f16[31,0,15]
      %1 = reduce_sum %0 {dims=[1,2], keepdim=true} : f16[31,1,1]
      %2 = reduce_prod %0 {dims=[1], keepdim=false} : f16[31,15]
      return %1, %2)"},
    {"ABlockForAnEpilogueIsComputedAsInTheResult", R"(
      %0 = input : f32[9,4096]
      %1 = input : f32[4096,9]
      %2 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[9,9]
      %3 = add %2, %2 : f32[9,9]
      return %3)"},
    {"LaneFunctionsOfTruthValuesAreCalled", R"(
      %0 = input : bool[19]
      %1 = input : bool[19]
      %2 = gcd %0, %1 : bool[19]
      return %2)"},
};

class FuzzRegression : public ::testing::TestWithParam<Once> {};

TEST_P(FuzzRegression, IsRight) {
  bool compiled = WhyNotCompiled().empty();
  Case test = ParseCase(GetParam().graph);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    test.inputs = RandomInputs(test.graph, seed);
    EXPECT_EQ(FindDifference(test, {true, compiled}), "") << "inputs of seed " << seed;
  }
}

TEST(FuzzedInputs, SignallingNansAreNans) {
  for (const char* op : {"fmin", "fmax"}) {
    Case test = ParseCase(std::string("%0 = input : f64[2]\n%1 = input : f64[2]\n%2 = ") + op +
                          " %0, %1 : f64[2]\nreturn %2\n"
                          "bytes 0 010000000000f07f000000000000f03f\n"
                          "bytes 1 000000000000f03f010000000000f07f\n");
    EXPECT_EQ(FindDifference(test, {true, WhyNotCompiled().empty()}), "") << op;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzRegression, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hammock::fuzz
