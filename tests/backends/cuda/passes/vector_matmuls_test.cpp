#include "backends/cuda/passes/vector_matmuls.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/passes/cuda_passes.h"

namespace hammock::cuda {
namespace {

std::string Rewritten(const char* text) { return ToText(VectorMatMuls(ParseGraph(text))); }

TEST(VectorMatMuls, OneRowBecomesProductsAndTheirSum) {
  EXPECT_EQ(Rewritten(R"(
    %0 = input : bf16[1,64]
    %1 = input : bf16[32,64]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : bf16[1,32]
    return %2)"),
            R"(%0 = input : bf16[1,64]
%1 = input : bf16[32,64]
%2 = broadcast %0 {sizes=[32,64]} : bf16[32,64]
%3 = cast %2 {dtype=f32} : f32[32,64]
%4 = cast %1 {dtype=f32} : f32[32,64]
%5 = mul %3, %4 : f32[32,64]
%6 = reduce_sum %5 {dims=[1], keepdim=false} : f32[32]
%7 = cast %6 {dtype=bf16} : bf16[32]
%8 = reshape %7 {sizes=[1,32]} : bf16[1,32]
return %8
)");
}

/// A matrix that is contracted over its rows, whose transpose is not made.
TEST(VectorMatMuls, OneColumnOfEachBatchToo) {
  EXPECT_EQ(Rewritten(R"(
    %0 = input : f64[3,5,7]
    %1 = input : f64[3,5,1]
    %2 = dot_general %0, %1 {a_contract=[1], b_contract=[1], a_batch=[0], b_batch=[0]} : f64[3,7,1]
    return %2)"),
            R"(%0 = input : f64[3,5,7]
%1 = input : f64[3,5,1]
%2 = permute %1 {dims=[2,0,1]} : f64[1,3,5]
%3 = reshape %2 {sizes=[3,5,1]} : f64[3,5,1]
%4 = broadcast %3 {sizes=[3,5,7]} : f64[3,5,7]
%5 = mul %4, %0 : f64[3,5,7]
%6 = reduce_sum %5 {dims=[1], keepdim=false} : f64[3,7]
%7 = reshape %6 {sizes=[3,7,1]} : f64[3,7,1]
return %7
)");
}

TEST(VectorMatMuls, AComputedVectorIsStoredOnceForAllItsMatmuls) {
  EXPECT_EQ(Rewritten(R"(
    %0 = input : f32[1,64]
    %1 = input : f32[32,64]
    %2 = input : f32[16,64]
    %3 = exp %0 : f32[1,64]
    %4 = dot_general %3, %1 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[1,32]
    %5 = dot_general %3, %2 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[1,16]
    return %4, %5)"),
            R"(%0 = input : f32[1,64]
%1 = input : f32[32,64]
%2 = input : f32[16,64]
%3 = exp %0 : f32[1,64]
%4 = barrier %3, %3 : f32[1,64]
%5 = broadcast %4 {sizes=[32,64]} : f32[32,64]
%6 = mul %5, %1 : f32[32,64]
%7 = reduce_sum %6 {dims=[1], keepdim=false} : f32[32]
%8 = reshape %7 {sizes=[1,32]} : f32[1,32]
%9 = broadcast %4 {sizes=[16,64]} : f32[16,64]
%10 = mul %9, %2 : f32[16,64]
%11 = reduce_sum %10 {dims=[1], keepdim=false} : f32[16]
%12 = reshape %11 {sizes=[1,16]} : f32[1,16]
return %8, %12
)");
}

TEST(VectorMatMuls, OthersStayAsTheyAre) {
  for (const char* text :
       {// No vector.
        "%0 = input : f32[2,64]\n%1 = input : f32[32,64]\n"
        "%2 = dot_general %0, %1 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : "
        "f32[2,32]\nreturn %2\n",
        // Integers.
        "%0 = input : i32[1,64]\n%1 = input : i32[32,64]\n"
        "%2 = dot_general %0, %1 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : "
        "i32[1,32]\nreturn %2\n",
        // An empty sum.
        "%0 = input : f32[1,0]\n%1 = input : f32[32,0]\n"
        "%2 = dot_general %0, %1 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : "
        "f32[1,32]\nreturn %2\n",
        // Relu belongs to the matmul.
        "%0 = input : bf16[1,64]\n%1 = input : bf16[32,64]\n"
        "%2 = _dot_general_fused %0, %1, none {a_contract=[1], b_contract=[1], a_batch=[], "
        "b_batch=[], dtype=bf16, relu=true} : bf16[1,32]\nreturn %2\n"}) {
    EXPECT_EQ(Rewritten(text), text);
  }
}

/// A vector is computed once for all matmuls that use it, and what follows them is in their kernel.
TEST(VectorMatMuls, TwoWithOneVectorAndWhatUsesThemAreOneKernel) {
  Graph graph = ParseGraph(R"(
    %0 = input : bf16[1,64]
    %1 = input : bf16[32,64]
    %2 = input : bf16[32,64]
    %3 = mul %0, %0 : bf16[1,64]
    %4 = dot_general %3, %1 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : bf16[1,32]
    %5 = dot_general %3, %2 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : bf16[1,32]
    %6 = sigmoid %4 : bf16[1,32]
    %7 = mul %6, %5 : bf16[1,32]
    return %7)");
  compiler::Schedule schedule = ScheduleForCuda(RewriteForCuda(graph));
  std::vector<std::pair<int64_t, int64_t>> loops;
  for (const compiler::Command& command : schedule.commands) {
    if (!command.is_call()) loops.emplace_back(command.launch.rows, command.launch.columns);
  }
  EXPECT_EQ(loops, (std::vector<std::pair<int64_t, int64_t>>{{1, 64}, {32, 64}}));
}

/// Each would need registers of its own.
TEST(VectorMatMuls, ManyWithOneVectorAreNotOneKernel) {
  std::string text = "%0 = input : bf16[1,64]\n", outputs;
  for (int i = 1; i <= 12; i += 2) {
    text += fmt::format("%{} = input : bf16[32,64]\n", i);
    text += fmt::format(
        "%{} = dot_general %0, %{} {{a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]}} : "
        "bf16[1,32]\n",
        i + 1, i);
    outputs += fmt::format("{}%{}", i == 1 ? "" : ", ", i + 1);
  }
  Graph graph = RewriteForCuda(ParseGraph(text + "return " + outputs));
  for (const compiler::Command& command : ScheduleForCuda(graph).commands) {
    EXPECT_LE(std::ranges::count(command.launch.kernel->instrs, compiler::Instr::Kind::kReduce,
                                 &compiler::Instr::kind),
              2);
  }
}

}  // namespace
}  // namespace hammock::cuda
