#include "backends/cuda/passes/chunk_attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cuda/emulated.h"
#include "backends/reference/interpreter.h"
#include "compiler/passes/expand.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

/// Attention, or its gradient, of [2, 3, queries, width].
Graph AttentionOf(bool backward, int64_t queries, int64_t keys, const std::string& mask,
                  bool is_causal, const std::string& dtype = "f32") {
  auto sizes = [&](int64_t length) { return fmt::format("{}[2,3,{},8]", dtype, length); };
  const std::string rows = fmt::format("f32[2,3,{}]", queries);
  std::string text = fmt::format("%0 = input : {}\n%1 = input : {}\n%2 = input : {}\n",
                                 sizes(queries), sizes(keys), sizes(keys));
  text += mask.empty() ? "%3 = input : f32[]\n" : fmt::format("%3 = input : {}\n", mask);
  const std::string third = mask.empty() ? "none" : "%3";
  const std::string attrs = fmt::format("{{is_causal={}, scale=0.5}}", is_causal);
  if (!backward) {
    text += fmt::format("%4:2 = _attention %0, %1, %2, {} {} : {}, {}\nreturn %4.0, %4.1", third,
                        attrs, sizes(queries), rows);
    return ParseGraph(text);
  }
  text += fmt::format("%4 = input : {}\n%5 = input : {}\n%6 = input : {}\n", sizes(queries), rows,
                      rows);
  text += fmt::format(
      "%7:3 = _attention_backward %4, %0, %1, %2, {}, %5, %6 {} : {}, {}, {}\n"
      "return %7.0, %7.1, %7.2",
      third, attrs, sizes(queries), sizes(keys), sizes(keys));
  return ParseGraph(text);
}

std::vector<HostTensor> RandomInputs(const Graph& graph) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<HostTensor> inputs;
  for (NodeId id : graph.inputs()) {
    HostTensor wide(graph[id].type().With(DType::kF32));
    float* values = reinterpret_cast<float*>(wide.mutable_data());
    const bool is_bool = graph[id].type().dtype() == DType::kBool;
    for (int64_t i = 0; i < wide.shape().numel(); ++i) {
      values[i] = is_bool ? static_cast<float>(i % 3 != 1) : number(random);
    }
    inputs.push_back(wide.To(graph[id].type().dtype()));
  }
  return inputs;
}

/// The largest value that is made in it or in the bodies of its loops, and how deep these are.
int64_t LargestFloat(const Graph& graph, int* depth) {
  int64_t largest = 0;
  int deepest = 0;
  for (const GraphNode& node : graph.nodes()) {
    if (node.op == &ops::kLoop) {
      int inside = 0;
      largest = std::max(largest, LargestFloat(node.attr("body").graph(), &inside));
      deepest = std::max(deepest, inside + 1);
    }
    bool made =
        node.op != &ops::kInput && node.op != &ops::kReshape && IsFloat(node.type().dtype());
    if (made) largest = std::max(largest, node.type().bytes());
  }
  *depth = deepest;
  return largest;
}

void ExpectNear(const std::vector<HostTensor>& ours, const std::vector<HostTensor>& expected,
                double bound) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t k = 0; k < ours.size(); ++k) {
    HostTensor a = ours[k].To(DType::kF32), b = expected[k].To(DType::kF32);
    ASSERT_EQ(a.shape(), b.shape());
    const float* x = reinterpret_cast<const float*>(a.data());
    const float* y = reinterpret_cast<const float*>(b.data());
    float largest = 1;
    for (int64_t i = 0; i < b.shape().numel(); ++i) largest = std::max(largest, std::abs(y[i]));
    for (int64_t i = 0; i < a.shape().numel(); ++i) {
      ASSERT_TRUE((std::isnan(x[i]) && std::isnan(y[i])) ||
                  std::abs(x[i] - y[i]) <= bound * largest)
          << "result " << k << ", element " << i << ": " << x[i] << " and " << y[i];
    }
  }
}

struct Case {
  int64_t queries, keys;
  std::string mask;
  bool is_causal;
  int64_t score_bytes;
  int depth;  // of loops
  std::string dtype = "f32";
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << fmt::format("{} queries, {} keys of {}, mask {}, causal {}", c.queries, c.keys, c.dtype,
                      c.mask.empty() ? "none" : c.mask, c.is_causal);
}

class ChunkedAttention : public testing::TestWithParam<Case> {};

TEST_P(ChunkedAttention, AgreeWithTheWhole) {
  const Case& c = GetParam();
  for (bool backward : {false, true}) {
    SCOPED_TRACE(backward ? "backward" : "forward");
    Graph graph = AttentionOf(backward, c.queries, c.keys, c.mask, c.is_causal, c.dtype);
    Graph chunked = ChunkAttention(graph, c.score_bytes);
    int depth = 0;
    const int64_t outside = 2 * 3 * std::max(c.queries, c.keys) * 8 * 4;
    EXPECT_LE(LargestFloat(chunked, &depth), std::max(c.score_bytes, outside));
    EXPECT_EQ(depth, c.depth);
    std::vector<HostTensor> inputs = RandomInputs(graph);
    std::vector<HostTensor> expected = reference::Interpret(ExpandComposites(graph), inputs);
    const double bound = c.dtype == "f32" ? 3e-6 : 0.01;
    ExpectNear(reference::Interpret(ExpandComposites(chunked), inputs), expected, bound);
    if (!WhyNotEmulated().empty()) continue;
    Program program(chunked, EmulatedForTests());
    ExpectNear(RunProgram(*EmulatedForTests(), program, chunked, inputs), expected, bound);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , ChunkedAttention,
    testing::Values(Case{20, 10, "", false, 2 * 20 * 10 * 4, 1},         // two matrices
                    Case{20, 10, "", true, 20 * 10 * 4, 1},              // one
                    Case{128, 10, "", false, 64 * 10 * 4, 2},            // half of one
                    Case{192, 30, "", true, 100 * 30 * 4, 2},            // a third
                    Case{20, 10, "bool[20,10]", false, 20 * 10 * 4, 1},  // one mask
                    Case{128, 10, "bool[1,1,128,10]", false, 64 * 10 * 4, 2},
                    Case{128, 10, "f32[10]", false, 64 * 10 * 4, 2},
                    Case{128, 10, "f32[2,3,128,10]", false, 64 * 10 * 4, 2},  // one for each
                    Case{128, 10, "f32[2,3,1,10]", false, 64 * 10 * 4, 2},
                    Case{128, 10, "", true, 64 * 10 * 4, 2, "bf16"}));

TEST(ChunkAttention, MatricesOfTheBatchBecomeIterationsOfALoop) {
  EXPECT_EQ(ToText(ChunkAttention(ParseGraph(R"(
    %0 = input : bf16[2,3,20,7]
    %1 = input : bf16[2,3,10,7]
    %2:2 = _attention %0, %1, %1, none {is_causal=false, scale=0.5} : bf16[2,3,20,7], f32[2,3,20]
    return %2.0, %2.1)"),
                                  2 * 20 * 10 * 4)),
            R"(%0 = input : bf16[2,3,20,7]
%1 = input : bf16[2,3,10,7]
%2 = reshape %0 {sizes=[3,2,20,7]} : bf16[3,2,20,7]
%3 = reshape %1 {sizes=[3,2,10,7]} : bf16[3,2,10,7]
%4 = reshape %1 {sizes=[3,2,10,7]} : bf16[3,2,10,7]
%5:2 = loop %2, %3, %4 {body=graph {
  %0 = input : i64[]
  %1 = input : bf16[2,20,7]
  %2 = input : bf16[2,10,7]
  %3 = input : bf16[2,10,7]
  %4:2 = _attention %1, %2, %3, none {is_causal=false, scale=0.5} : bf16[2,20,7], f32[2,20]
  return %4.0, %4.1
}, count=3, num_carried=0, num_stacked_in=3} : bf16[3,2,20,7], f32[3,2,20]
%6 = reshape %5.0 {sizes=[2,3,20,7]} : bf16[2,3,20,7]
%7 = reshape %5.1 {sizes=[2,3,20]} : f32[2,3,20]
return %6, %7
)");
}

TEST(ChunkAttention, QueriesOfOneMatrixBecomeIterationsOfAnInnerLoop) {
  EXPECT_EQ(ToText(ChunkAttention(ParseGraph(R"(
    %0 = input : bf16[1,2,128,7]
    %1 = input : bf16[1,2,10,7]
    %2:2 = _attention %0, %1, %1, none {is_causal=false, scale=0.5} : bf16[1,2,128,7], f32[1,2,128]
    return %2.0, %2.1)"),
                                  64 * 10 * 4)),
            R"(%0 = input : bf16[1,2,128,7]
%1 = input : bf16[1,2,10,7]
%2 = reshape %0 {sizes=[2,1,128,7]} : bf16[2,1,128,7]
%3 = reshape %1 {sizes=[2,1,10,7]} : bf16[2,1,10,7]
%4 = reshape %1 {sizes=[2,1,10,7]} : bf16[2,1,10,7]
%5:2 = loop %2, %3, %4 {body=graph {
  %0 = input : i64[]
  %1 = input : bf16[1,128,7]
  %2 = input : bf16[1,10,7]
  %3 = input : bf16[1,10,7]
  %4 = reshape %1 {sizes=[2,1,64,7]} : bf16[2,1,64,7]
  %5:2 = loop %4, %2, %3 {body=graph {
    %0 = input : i64[]
    %1 = input : bf16[1,64,7]
    %2 = input : bf16[1,10,7]
    %3 = input : bf16[1,10,7]
    %4:2 = _attention %1, %2, %3, none {is_causal=false, scale=0.5} : bf16[1,64,7], f32[1,64]
    return %4.0, %4.1
  }, count=2, num_carried=0, num_stacked_in=1} : bf16[2,1,64,7], f32[2,1,64]
  %6 = reshape %5.0 {sizes=[1,128,7]} : bf16[1,128,7]
  %7 = reshape %5.1 {sizes=[1,128]} : f32[1,128]
  return %6, %7
}, count=2, num_carried=0, num_stacked_in=3} : bf16[2,1,128,7], f32[2,1,128]
%6 = reshape %5.0 {sizes=[1,2,128,7]} : bf16[1,2,128,7]
%7 = reshape %5.1 {sizes=[1,2,128]} : f32[1,2,128]
return %6, %7
)");
}

TEST(ChunkAttention, OnlyWhereScoresAreMany) {
  auto runs = [](const Graph& graph, int64_t bytes) {
    return RunsInChunks(graph, graph.nodes().back(), bytes);
  };
  EXPECT_FALSE(runs(AttentionOf(false, 20, 10, "", false), 6 * 20 * 10 * 4));
  EXPECT_TRUE(runs(AttentionOf(false, 20, 10, "", false), 6 * 20 * 10 * 4 - 1));
  EXPECT_FALSE(runs(AttentionOf(false, 20, 10, "f32[2,1,20,10]", false), 100));  // a mask for some
  EXPECT_FALSE(runs(AttentionOf(false, 0, 10, "", false), 100));
}

}  // namespace
}  // namespace hammock::cuda
