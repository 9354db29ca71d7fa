#include "backends/cuda/passes/vector_matmuls.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/passes/cuda_passes.h"

namespace hammock::cuda {
namespace {

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
