#include "backends/cuda/passes/late_writes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hammock::cuda {
namespace {

/// A schedule as text, before WriteLate and after it. `fault` is the last call.
struct Rewrite {
  explicit Rewrite(const char* text) {
    const Graph graph = ParseGraph(text);
    compiler::Schedule schedule =
        compiler::MakeSchedule(graph, /*aligned_outputs=*/false, /*epilogues=*/false);
    int fault = -1;
    for (int i = 0; i < static_cast<int>(schedule.commands.size()); ++i) {
      if (schedule.commands[i].is_call()) fault = i;
    }
    before = after = compiler::ToText(schedule, graph);
    const std::vector<int> order = WriteLate(schedule, fault);
    if (order.empty()) return;
    std::vector<compiler::Command> commands;
    for (int i : order) commands.push_back(schedule.commands[i]);
    schedule.commands = std::move(commands);
    after = compiler::ToText(schedule, graph);
  }
  std::string before, after;
};

/// A kernel of one line.
std::string Kernel(const char* fn, int from, int to, int size) {
  return fmt::format(
      "launch [] x 1 x {3}\n"
      "  a0 = b{1} at 0 + [] + row*0 + column*1\n"
      "  a1 = b{2} at 0 + [] + row*0 + column*1\n"
      "kernel\n"
      "  a0 = f32 row 0 column 1\n"
      "  a1 = f32 row 0 column 1\n"
      "  0 all: %0 = load a0 : f32\n"
      "  0 all: %1 = {0} %0 : f32\n"
      "  0 all: store a1, %1 : f32\n",
      fn, from, to, size);
}

TEST(WriteLate, UpdatesOfInputsComeBehindTheLastFault) {
  const Rewrite rewrite(R"(
    %0 = input : f32[64]
    %1 = input : f32[32]
    %2 = input : i64[3]
    %3 = exp %0 : f32[64]
    %4 = neg %1 : f32[32]
    %5 = index_select %4, %2 {dim=0} : f32[3]
    %6 = sin %5 : f32[3]
    return %3, %6)");
  const std::string exp = Kernel("exp", 0, 3, 64), neg = Kernel("neg", 1, 4, 32),
                    call = "call index_select reads [4,2] writes [5]\n",
                    sin = Kernel("sin", 5, 6, 3), outputs = "outputs [3,6]\n";
  EXPECT_EQ(rewrite.before, "command 0: " + exp + "command 1: " + neg + "command 2: " + call +
                                "command 3: " + sin + outputs);
  EXPECT_EQ(rewrite.after, "command 0: " + neg + "command 1: " + call + "command 2: " + exp +
                               "command 3: " + sin + outputs);
}

TEST(WriteLate, KeepsTheOrderOfUpdates) {
  const Rewrite rewrite(R"(
    %0 = input : f32[64]
    %1 = input : f32[32]
    %2 = input : i64[3]
    %3 = input : f32[7]
    %4 = exp %0 : f32[64]
    %5 = sin %1 : f32[32]
    %6 = neg %3 : f32[7]
    %7 = index_select %6, %2 {dim=0} : f32[3]
    return %4, %5, %7)");
  const std::string exp = Kernel("exp", 0, 4, 64), sin = Kernel("sin", 1, 5, 32),
                    neg = Kernel("neg", 3, 6, 7),
                    call = "call index_select reads [6,2] writes [7]\n",
                    outputs = "outputs [4,5,7]\n";
  EXPECT_EQ(rewrite.before, "command 0: " + exp + "command 1: " + sin + "command 2: " + neg +
                                "command 3: " + call + outputs);
  EXPECT_EQ(rewrite.after, "command 0: " + neg + "command 1: " + call + "command 2: " + exp +
                               "command 3: " + sin + outputs);
}

TEST(WriteLate, ResultsThatAFaultNeedsStay) {
  const Rewrite rewrite(R"(
    %0 = input : f32[64]
    %1 = input : i64[3]
    %2 = exp %0 : f32[64]
    %3 = index_select %2, %1 {dim=0} : f32[3]
    return %2, %3)");
  EXPECT_EQ(rewrite.after, rewrite.before);
  EXPECT_LT(rewrite.before.find("exp"), rewrite.before.find("call"));
}

TEST(WriteLate, ResultsOfOtherSizesStay) {
  const Rewrite rewrite(R"(
    %0 = input : f32[64]
    %1 = input : i64[3]
    %2 = input : f32[32]
    %3 = cast %0 {dtype=f64} : f64[64]
    %4 = neg %2 : f32[32]
    %5 = index_select %4, %1 {dim=0} : f32[3]
    return %3, %5)");
  EXPECT_EQ(rewrite.after, rewrite.before);
  EXPECT_LT(rewrite.before.find("cast"), rewrite.before.find("call"));
}

}  // namespace
}  // namespace hammock::cuda
