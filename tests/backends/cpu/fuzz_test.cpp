// A short run of the fuzzer, and the fuzzer itself. hammock-fuzz runs more: docs/design/fuzzing.md.
#include <gtest/gtest.h>

#include "backends/cpu/compiled.h"
#include "backends/run_graph.h"
#include "fuzz/bounds.h"
#include "fuzz/generate.h"
#include "fuzz/judge.h"
#include "fuzz/run.h"
#include "fuzz/shrink.h"
#include "ir/primitives.h"
#include "ops/primitives/collectives.h"

namespace hammock::fuzz {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kGraphs = 100;
constexpr uint64_t kCompiledGraphs = 5;
#else
constexpr uint64_t kGraphs = 1000;
constexpr uint64_t kCompiledGraphs = 60;
#endif

void ExpectRight(uint64_t first, uint64_t count, const Tiers& tiers) {
  int64_t before = CountsOf(tiers.compiled).programs;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    std::string difference = FindDifference(GenerateCase(seed), tiers);
    ASSERT_EQ(difference, "") << "repeat with hammock-fuzz --shrink --both --graphs 1 --seed "
                              << seed;
  }
  // Graphs that the interpreter refuses are not compared.
  EXPECT_GT(CountsOf(tiers.compiled).programs - before, static_cast<int64_t>(count / 2));
}

TEST(Fuzz, InterpretedGraphsAreRight) { ExpectRight(1, kGraphs, {true, false}); }

class FuzzCompiled : public cpu::Compiled {};

TEST_F(FuzzCompiled, GraphsAreRight) { ExpectRight(1000000, kCompiledGraphs, {true, true}); }

/// Otherwise a run would say nothing of it.
TEST(Fuzz, GeneratesEveryPrimitiveThatItClaims) {
  std::map<const OpDef*, int> seen;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Case test = GenerateCase(seed);
    for (const GraphNode& node : test.graph.nodes()) ++seen[node.op];
  }
  const std::set<const OpDef*> without = {
      // Traced leaves and lists, which no lowered graph has.
      &ops::kDeviceData, &ops::kScalarLeaf, &ops::kRngState, &ops::kTensorList,
      // Parts of complex values, which are bitcasts and slices in a lowered graph.
      &ops::kReal, &ops::kImag,
      // Has effects or fails.
      &ops::kRequire, &ops::kCustomCall, &ops::kWhile,
      // Between ranks.
      &ops::kAllReduce, &ops::kAllGather, &ops::kReduceScatter, &ops::kCollectiveBroadcast,
      &ops::kAllToAll, &ops::kCollectivePermute,
      // By LAPACK or loops of the reference backend, with results that are not unique.
      &ops::kCholesky, &ops::kLu, &ops::kQr, &ops::kEigh, &ops::kEig, &ops::kSvd,
      &ops::kSolveTriangular};
  for (const OpDef* op : op_registry::All()) {
    if (!op->IsPrimitive()) continue;
    EXPECT_EQ(seen.contains(op), !without.contains(op)) << op->name();
  }
}

TEST(Fuzz, GeneratesValuesOfEveryDType) {
  std::set<DType> seen;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Case test = GenerateCase(seed);
    for (const GraphNode& node : test.graph.nodes()) seen.insert(node.type().dtype());
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kNumDTypes));
}

TEST(Fuzz, TheSameSeedGivesTheSameCase) {
  EXPECT_EQ(ToText(GenerateCase(17)), ToText(GenerateCase(17)));
  EXPECT_NE(ToText(GenerateCase(17)), ToText(GenerateCase(18)));
}

TEST(Fuzz, CasesArePrintedAndReadBack) {
  Case test = GenerateCase(23);
  Case again = ParseCase(ToText(test));
  EXPECT_EQ(again.graph, test.graph);
  EXPECT_EQ(ToText(again), ToText(test));
  EXPECT_THROW(ParseCase("%0 = input : f32[2]\nreturn %0\nbytes 0 00\n"), ValueError);
  EXPECT_THROW(ParseCase("%0 = input : f32[1]\nreturn %0\nbytes 0 0000000g\n"), ValueError);
  EXPECT_THROW(ParseCase("%0 = input : f32[1]\nreturn %0\nbytes 1 00000000\n"), ValueError);
}

/// A graph of one node and whether `off` is accepted in place of each of its elements.
std::string Compare(const std::string& text, const std::vector<HostTensor>& operands,
                    double factor) {
  Graph one = ParseGraph(text);
  Verify(one);
  std::vector<HostTensor> expected = reference::Interpret(one, operands);
  HostTensor off(expected[0].shape());
  for (int64_t i = 0; i < off.numel(); ++i) {
    off.set(i, Scalar(expected[0].at(i).ToDouble() * factor).To(off.dtype()));
  }
  return CompareNode(one, operands, {off}, expected);
}

TEST(FuzzBounds, AreTightEnoughToSeeWrongElements) {
  HostTensor x = Make(f32, {0.5, 1.5, 2.5});
  const char* sum = "%0 = input : f32[3]\n%1 = add %0, %0 : f32[3]\nreturn %1";
  EXPECT_EQ(Compare(sum, {x}, 1), "");
  EXPECT_NE(Compare(sum, {x}, 1 + 0x1p-23), "");
  const char* exp = "%0 = input : f32[3]\n%1 = exp %0 : f32[3]\nreturn %1";
  EXPECT_EQ(Compare(exp, {x}, 1 + 0x1.4p-24), "");  // the next number
  EXPECT_NE(Compare(exp, {x}, 1 + 0x1p-22), "");
  const char* all =
      "%0 = input : f32[3]\n%1 = reduce_sum %0 {dims=[0], keepdim=false} : f32[]\nreturn %1";
  EXPECT_EQ(Compare(all, {x}, 1 + 0x1p-23), "");
  EXPECT_NE(Compare(all, {x}, 1 + 0x1p-17), "");
  const char* product =
      "%0 = input : f32[3]\n%1 = reduce_prod %0 {dims=[0], keepdim=false} : f32[]\nreturn %1";
  EXPECT_EQ(Compare(product, {x}, 1 + 0x1p-23), "");
  EXPECT_NE(Compare(product, {x}, 1 + 0x1p-17), "");
}

/// A neighbour of the right result passes where the function's row allows errors, and no more.
TEST(FuzzBounds, AreThoseOfTheScalarFunctions) {
  int inexact = 0;
  for (size_t i = 1; i < kNumScalarFns; ++i) {
    ScalarFn fn = static_cast<ScalarFn>(i);
    if (InfoOf(fn).floats == ScalarBody::kAbsent || IsTruth(fn) || ArityOf(fn) > 2) continue;
    const OpDef& op = op_registry::Get(NameOf(fn));
    Graph one;
    std::vector<HostTensor> operands(static_cast<size_t>(ArityOf(fn)),
                                     Make(f32, {0.3 * op.domain.lo + 0.7 * op.domain.hi}));
    std::vector<GraphValue> inputs;
    for (const HostTensor& operand : operands) inputs.push_back(one.AddInput(operand.shape()));
    one.AddOutput({one.AddNode(op, inputs), 0});
    float expected = reference::Interpret(one, operands)[0].values<float>()[0];
    ASSERT_TRUE(std::isfinite(expected)) << op.name();
    auto passes = [&](float actual) {
      return CompareNode(one, operands, {Make(f32, {actual})}, {Make(f32, {expected})}).empty();
    };
    EXPECT_EQ(passes(std::nextafter(expected, 9e9f)), InfoOf(fn).f32_ulps > 0) << op.name();
    EXPECT_FALSE(passes(expected + 1e-6f * std::max(1.0f, std::abs(expected)))) << op.name();
    inexact += InfoOf(fn).f32_ulps > 0;
  }
  EXPECT_GT(inexact, 30);
}

TEST(FuzzBounds, TellNanFromNumbers) {
  HostTensor nan = Make(f32, {kNan, 1});
  EXPECT_EQ(CompareBits(nan, nan), "");
  EXPECT_NE(CompareBits(nan, Make(f32, {1, 1})), "");
  EXPECT_NE(CompareBits(Make(f32, {0.0}), Make(f32, {-0.0})), "");
}

/// Of the whole graph the part remains that the failure needs.
TEST(FuzzShrink, LeavesWhatFails) {
  Case test = ParseCase(R"(
    %0 = input : f32[17,33]
    %1 = exp %0 : f32[17,33]
    %2 = reduce_sum %1 {dims=[1], keepdim=true} : f32[17,1]
    %3 = broadcast %2 {sizes=[17,33]} : f32[17,33]
    %4 = div %1, %3 : f32[17,33]
    %5 = neg %4 : f32[17,33]
    return %5, %1)");
  auto fails = [](const Case& c) {
    for (const GraphNode& node : c.graph.nodes()) {
      if (node.op == &ops::kDiv) return true;
    }
    return false;
  };
  Case small = Shrink(test, fails);
  EXPECT_EQ(
      hammock::ToText(small.graph),
      "%0 = input : f32[1,1]\n%1 = input : f32[1,1]\n%2 = div %0, %1 : f32[1,1]\nreturn %2\n");
  EXPECT_EQ(small.inputs.size(), 2u);
}

TEST(FuzzRun, CrashesAreDifferences) {
  EXPECT_EQ(RunApart([] { return std::string("text"); }), "text");
  EXPECT_EQ(RunApart([]() -> std::string { std::abort(); }), "crashed with signal 6");
}

/// What reads behind the end of a buffer does not go unnoticed.
TEST(FuzzRun, BuffersEndAtAPageThatFaults) {
  std::string result = RunApart([] {
    HostTensor x = Make(f32, {1, 2, 3});
    RunOnCpu(ParseGraph("%0 = input : f32[4]\n%1 = neg %0 : f32[4]\nreturn %1"), {x}, false, 1);
    return std::string("nothing");
  });
  EXPECT_EQ(result, "crashed with signal 11");
}

}  // namespace
}  // namespace hammock::fuzz
