// Kernels as text.
#include "backends/cuda/emit/emit_cuda.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/device/device_text.h"
#include "backends/cuda/driver/nvrtc.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emulated.h"
#include "backends/cuda/passes/attention_views.h"
#include "backends/cuda/passes/copies_to_where.h"
#include "backends/cuda/passes/cuda_passes.h"
#include "backends/cuda/passes/fuse_random.h"
#include "backends/cuda/passes/round_matmuls.h"
#include "compiler/passes/narrow_matmuls.h"
#include "compiler/passes/remove_dead.h"
#include "hammock/compiler/donation_plan.h"
#include "hammock/compiler/schedule.h"

namespace hammock::cuda {
namespace {

struct Emitted {
  compiler::Launch launch;
  LaunchConfig config;
  std::string text;
};

/// The only kernel of a graph.
Emitted Emit(const std::string& graph_text) {
  Graph graph = ParseGraph(graph_text);
  compiler::Schedule schedule = compiler::MakeSchedule(graph, false, false);
  EXPECT_EQ(schedule.commands.size(), 1u) << compiler::ToText(schedule, graph);
  compiler::Launch launch = schedule.commands[0].launch;
  LaunchConfig config = ConfigureLaunch(launch);
  return {launch, config, EmitCuda(*launch.kernel, config).text};
}

testing::AssertionResult Has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in\n" << text;
}

TEST(EmitCuda, LargeMapsUseWideLoads) {
  Emitted e = Emit(R"(
    %0 = input : f32[1024,1024]
    %1 = mul %0, %0 : f32[1024,1024]
    return %1)");
  EXPECT_EQ(ToText(e.config),
            "map outer 0 i32 vector 4 threads 256 lines 1 slots 1 even accumulators 1 ww\n");
  EXPECT_TRUE(Has(e.text, "load_some<4>(p0 + at, count, m0 + s * 4);"));
  EXPECT_TRUE(Has(e.text, "const float x1 = mul_f32(x0, x0);"));
  EXPECT_TRUE(Has(e.text, "store_some<4>(p1 + at, count, m1 + s * 4);"));
}

TEST(EmitCuda, ElementsThatAllLinesShareAreLoadedOnce) {
  Emitted e = Emit(R"(
    %0 = input : bf16[65536,256]
    %1 = input : bf16[256]
    %2 = broadcast %1 {sizes=[65536,256]} : bf16[65536,256]
    %3 = mul %0, %2 : bf16[65536,256]
    return %3)");
  EXPECT_EQ(ToText(e.config),
            "map outer 0 i32 vector 8 threads 32 lines 8 line slots 2 even accumulators 1 www\n");
  const size_t shared = e.text.find("load_some<8>(p1 + at, count, m1 + s * 8);");
  ASSERT_NE(shared, std::string::npos) << e.text;
  EXPECT_LT(shared, e.text.find("for (I line")) << e.text;
  EXPECT_TRUE(Has(e.text, "from_bf16(m1[e % 8])"));
  EXPECT_TRUE(Has(e.text, "load_some<8>(p0 + at + down * (I)words.w[4], count, m0 + s * 8);"));
  EXPECT_EQ(GridOf(e.launch, e.config).y, 65536u / 8 / 2 / 8);
}

TEST(EmitCuda, TransposedOperandsAreLoadedInTiles) {
  Emitted e = Emit(R"(
    %0 = input : f32[300,500]
    %1 = input : f32[500,300]
    %2 = permute %0 {dims=[1,0]} : f32[500,300]
    %3 = add %2, %1 : f32[500,300]
    return %3)");
  EXPECT_EQ(ToText(e.config),
            "tile outer 0 i32 vector 1 threads 32 lines 8 slots 1 accumulators 1 t--\n");
  EXPECT_TRUE(Has(e.text, "__shared__ float tile0[32][33];"));
  EXPECT_TRUE(Has(e.text, "if (count > 0) m0[s] = tile0[thread][k];"));
}

TEST(EmitCuda, SmallMapsSpreadOverThreads) {
  Emitted e = Emit(R"(
    %0 = input : f32[3,5]
    %1 = neg %0 : f32[3,5]
    return %1)");
  EXPECT_EQ(e.config.vector, 1);
  EXPECT_EQ(e.config.threads, 16);
}

TEST(EmitCuda, UnalignedRowsAreLoadedElementByElement) {
  Emitted e = Emit(R"(
    %0 = input : f32[1024,1025]
    %1 = slice %0 {dim=1, start=1, size=1024, step=1} : f32[1024,1024]
    %2 = neg %1 : f32[1024,1024]
    return %2)");
  EXPECT_TRUE(Has(e.text, "load_apart<4>(p0 + at, (I)1, count, m0 + s * 4);"));
  EXPECT_TRUE(Has(e.text, "store_some<4>(p1 + at, count, m1 + s * 4);"));
}

TEST(EmitCuda, SixteenBitFloatsAreRoundedAfterEachFunction) {
  Emitted e = Emit(R"(
    %0 = input : bf16[8]
    %1 = mul %0, %0 : bf16[8]
    %2 = add %1, %0 : bf16[8]
    return %2)");
  EXPECT_TRUE(Has(e.text, "const float x1 = from_bf16(to_bf16(mul_f32(x0, x0)));"));
  EXPECT_TRUE(Has(e.text, "m1[e] = to_bf16(x2);"));
}

/// A row is read once and stays in registers.
TEST(EmitCuda, SoftmaxIsOnePass) {
  Emitted e = Emit(R"(
    %0 = input : f32[16384,4096]
    %1 = reduce_max %0 {dims=[1], keepdim=true} : f32[16384,1]
    %2 = broadcast %1 {sizes=[16384,4096]} : f32[16384,4096]
    %3 = sub %0, %2 : f32[16384,4096]
    %4 = exp %3 : f32[16384,4096]
    %5 = reduce_sum %4 {dims=[1], keepdim=true} : f32[16384,1]
    %6 = broadcast %5 {sizes=[16384,4096]} : f32[16384,4096]
    %7 = div %4, %6 : f32[16384,4096]
    return %7)");
  EXPECT_EQ(e.config.way, LaunchConfig::Way::kRow);
  EXPECT_TRUE(e.config.whole);
  EXPECT_EQ(e.config.threads * e.config.slots * e.config.vector, 4096);
  size_t loads = 0;
  for (size_t at = 0; (at = e.text.find("load_some", at)) != std::string::npos; ++at) ++loads;
  EXPECT_EQ(loads, 1u) << e.text;
  EXPECT_EQ(ScratchBytes(e.launch, e.config), 0);
}

/// Where every round is full nothing asks for the end of the row.
TEST(EmitCuda, EvenRowsHaveNoGuards) {
  auto sum = [](int columns) {
    return Emit(fmt::format(R"(
      %0 = input : f32[300,{}]
      %1 = reduce_sum %0 {{dims=[1], keepdim=false}} : f32[300]
      return %1)",
                            columns));
  };
  EXPECT_TRUE(Has(sum(4000).text, "if (at < columns) r1"));
  EXPECT_FALSE(Has(sum(4096).text, "at < columns"));
  EXPECT_TRUE(Has(sum(4096).text, "const int count = 4;"));
}

/// Of the rounds of a long row only the last one, which is not full, asks for its end.
TEST(EmitCuda, FullRoundsHaveNoGuards) {
  Emitted e = Emit(R"(
    %0 = input : bf16[300,50304]
    %1 = cast %0 {dtype=f32} : f32[300,50304]
    %2 = reduce_sum %1 {dims=[1], keepdim=false} : f32[300]
    return %2)");
  EXPECT_FALSE(e.config.whole);
  const size_t full = e.text.find("for (; columns - round * 1024 >= 1024; ++round)");
  const size_t last = e.text.find("if (round * 1024 < columns)");
  ASSERT_LT(full, last) << e.text;
  EXPECT_FALSE(Has(e.text.substr(full, last - full), "if (at < columns)"));
  EXPECT_TRUE(Has(e.text.substr(last), "if (at < columns) r2"));
}

TEST(EmitCuda, SumsOverRowsHaveLanesAlongThem) {
  Emitted e = Emit(R"(
    %0 = input : bf16[4096,512]
    %1 = cast %0 {dtype=f32} : f32[4096,512]
    %2 = reduce_sum %1 {dims=[0], keepdim=false} : f32[512]
    return %2)");
  EXPECT_EQ(ToText(e.config),
            "column outer 0 i32 vector 8 threads 32 lines 8 slots 2 split 16 even accumulators "
            "1024 ww\n");
  EXPECT_TRUE(Has(e.text, "load_some<8>(p0 + at * (I)words.w[5], count, m0 + s * 8);"));
  EXPECT_TRUE(Has(e.text, "is_last = atomicAdd(&arrived[blockIdx.x], 1u) == 15u;"));
  EXPECT_TRUE(Has(e.text, "unsigned* const arrived = (unsigned*)words.w[10];")) << e.text;
  EXPECT_EQ(GridOf(e.launch, e.config).x, 8u);
  EXPECT_EQ(GridOf(e.launch, e.config).y, 16u);
  EXPECT_EQ(ScratchBytes(e.launch, e.config), 16 * 512 * 8);
}

/// Later stages read what all blocks have reduced, so passes stay in one block.
TEST(EmitCuda, PassesOfSeveralStagesAreNotSplit) {
  Emitted e = Emit(R"(
    %0 = input : f32[4096,16384]
    %1 = reduce_max %0 {dims=[0], keepdim=true} : f32[1,16384]
    %2 = broadcast %1 {sizes=[4096,16384]} : f32[4096,16384]
    %3 = sub %0, %2 : f32[4096,16384]
    return %3)");
  EXPECT_EQ(e.config.way, LaunchConfig::Way::kColumn);
  EXPECT_GT(e.config.passes, 1);
  EXPECT_FALSE(e.config.split);
}

/// Both halves of what Box-Muller needs, drawn where they are used.
TEST(FuseRandom, WordsAreDrawnByTheirKernel) {
  const std::string text = R"(
    %0 = input : u64[2]
    %1 = rng_bits %0 {sizes=[2,4096]} : u32[2,4096]
    %2 = slice %1 {dim=0, start=0, size=1, step=1} : u32[1,4096]
    %3 = slice %1 {dim=0, start=1, size=1, step=1} : u32[1,4096]
    %4 = bitwise_xor %2, %3 : u32[1,4096]
    return %4)";
  Graph graph = ParseGraph(text);
  compiler::Schedule schedule =
      FuseRandom(graph, compiler::MakeSchedule(graph, /*aligned_outputs=*/false, false));
  ASSERT_EQ(schedule.commands.size(), 1u) << compiler::ToText(schedule, graph);
  const compiler::Command& step = schedule.commands[0];
  EXPECT_EQ(step.reads, schedule.inputs);
  LaunchConfig config = ConfigureLaunch(step.launch);
  config.vector = 4;
  config.is_wide = {true, false, true};
  std::string kernel = EmitCuda(*step.launch.kernel, config).text;
  EXPECT_TRUE(Has(kernel, "const long long p1 = (long long)words.w[8];"));
  EXPECT_TRUE(Has(kernel, "random_blocks<4>(words.w[3], p0 + at, m0 + s * 4);"));
  EXPECT_TRUE(Has(kernel, "random_words<4>(words.w[6], p1 + at, m1 + s * 4);"));
  std::vector<uint64_t> arguments =
      KernelArguments(step.launch, config, {100, 200, 300, 400, 500}, 0, 0);
  EXPECT_EQ(arguments[6], 100u);
  EXPECT_EQ(arguments[8], 4096u);
}

TEST(FuseRandom, WordsThatOthersNeedAreWritten) {
  for (const char* result : {"%2, %1", "%2, %3"}) {
    Graph graph = ParseGraph(fmt::format(R"(
      %0 = input : u64[2]
      %1 = rng_bits %0 {{sizes=[8,4]}} : u32[8,4]
      %2 = neg %1 : u32[8,4]
      %3 = reduce_max %1 {{dims=[0], keepdim=false}} : u32[4]
      return {})",
                                         result));
    compiler::Schedule schedule =
        FuseRandom(graph, compiler::MakeSchedule(graph, /*aligned_outputs=*/false, false));
    EXPECT_TRUE(schedule.commands[0].is_call()) << compiler::ToText(schedule, graph);
  }
}

/// Every word needs all of the state, so nothing may be written there.
TEST(FuseRandom, ResultsDoNotReplaceTheState) {
  Graph graph = ParseGraph(R"(
    %0 = input : u64[2]
    %1 = rng_bits %0 {sizes=[2]} : u32[2]
    %2 = cast %1 {dtype=u64} : u64[2]
    return %2)");
  compiler::Schedule schedule =
      FuseRandom(graph, compiler::MakeSchedule(graph, /*aligned_outputs=*/false, false));
  ASSERT_EQ(schedule.commands.size(), 1u);
  EXPECT_EQ(compiler::DonationPlan(graph, schedule, {0}).Match({true}), std::vector<int>{-1});
}

/// As in an optimiser's update: three numbers of each element are read and three are written.
TEST(LaunchConfig, MapsOfManyOperandsHaveShorterVectors) {
  Emitted e = Emit(R"(
    %0 = input : bf16[2048,1024]
    %1 = input : f32[2048,1024]
    %2 = input : f32[2048,1024]
    %3 = cast %0 {dtype=f32} : f32[2048,1024]
    %4 = add %3, %1 : f32[2048,1024]
    %5 = mul %4, %2 : f32[2048,1024]
    return %3, %4, %5)");
  EXPECT_EQ(e.config.vector, 4) << ToText(e.config);
}

TEST(LaunchConfig, ColumnsOfManyDoublesHaveVectorsOfOne) {
  std::string text = "%0 = input : f64[40,6]\n";
  std::string sum = "%0";
  int next = 1;
  for (int i = 0; i < 12; ++i) {
    text += fmt::format("%{} = input : f64[40,6]\n", next);
    text += fmt::format("%{} = mul {}, %{} : f64[40,6]\n", next + 1, sum, next);
    sum = fmt::format("%{}", next + 1);
    next += 2;
  }
  text += fmt::format("%{} = reduce_sum {} {{dims=[0], keepdim=false}} : f64[6]\n", next, sum);
  EXPECT_EQ(Emit(text + fmt::format("return %{}", next)).config.vector, 1);
}

/// Every accumulator belongs to one slot of one thread in one pass.
TEST(LaunchConfig, AccumulatorsOfColumnsAreCoveredOnce) {
  for (const char* dtype : {"u8", "bf16", "f32", "f64"}) {
    for (int64_t rows : {2, 16, 32, 200, 1024, 5000}) {
      for (int64_t columns : {6, 96, 1000, 4096, 100000}) {
        Emitted e = Emit(fmt::format(R"(
          %0 = input : {0}[{1},{2}]
          %1 = reduce_max %0 {{dims=[0], keepdim=false}} : {0}[{2}]
          return %1)",
                                     dtype, rows, columns));
        SCOPED_TRACE(fmt::format("{}[{},{}]: {}", dtype, rows, columns, ToText(e.config)));
        ASSERT_EQ(e.config.way, LaunchConfig::Way::kColumn);
        EXPECT_EQ(e.config.threads * e.config.slots * e.config.passes, e.config.accumulators);
        EXPECT_GE(e.config.threads * e.config.slots, std::min(e.config.accumulators, 8));
        EXPECT_LE(e.config.block_threads(), 512);
        EXPECT_EQ(columns % e.config.vector, 0);
        EXPECT_GE(int64_t{GridOf(e.launch, e.config).x} * e.config.lines * e.config.vector,
                  columns);
        EXPECT_TRUE(!e.config.split || GridOf(e.launch, e.config).x <= kMostSplitBlocks);
      }
    }
  }
}

/// Note [Reductions on a GPU]
TEST(LaunchConfig, AccumulatorsDependOnTheExtentAlone) {
  EXPECT_EQ(AccumulatorsOf(0), 1);
  EXPECT_EQ(AccumulatorsOf(1), 1);
  EXPECT_EQ(AccumulatorsOf(5), 8);
  EXPECT_EQ(AccumulatorsOf(1000), 1024);
  EXPECT_EQ(AccumulatorsOf(60000), 1024);
}

TEST(ScalarText, KnowsWhatItHasNoTextFor) {
  EXPECT_TRUE(HasText(ScalarFn::kExp, DType::kBF16));
  EXPECT_TRUE(HasText(ScalarFn::kFmod, DType::kF64));
  EXPECT_TRUE(HasText(ScalarFn::kDigamma, DType::kF32));
  EXPECT_FALSE(HasText(ScalarFn::kGcd, DType::kF32));
}

TEST(ScalarText, ConstantsAreExact) {
  ScalarText scalars;
  EXPECT_EQ(scalars.Scalar(ScalarFn::kRsqrt, DType::kF32, {"x"}), "rsqrt_f32(x)");
  EXPECT_TRUE(Has(scalars.Functions(),
                  "__device__ inline float rsqrt_f32(float x) {\n  float v0 = sqrtf(x);\n"
                  "  float v1 = (float)0x1p+0f / v0;\n  return v1;\n}\n"));
}

/// What the loop IR does not have is compiled by NVRTC too, where it is.
TEST(Calls, AreCompiledByNvrtc) {
  if (!WhyNoNvrtc().empty()) GTEST_SKIP() << WhyNoNvrtc();
  for (const char* causal : {"true", "false"}) {
    Graph graph = ParseGraph(fmt::format(R"(
      %0 = input : bf16[2,100,64]
      %1:2 = _attention %0, %0, %0, none {{is_causal={0}, scale=0.125}} : bf16[2,100,64], f32[2,100]
      %2:3 = _attention_backward %1.0, %0, %0, %0, none, %1.1, %1.1 {{is_causal={0}, scale=0.125}} : bf16[2,100,64], bf16[2,100,64], bf16[2,100,64]
      return %1.0, %1.1, %2.0, %2.1, %2.2)",
                                         causal));
    std::string module = Prelude();
    for (const KernelSource& source : Program(graph, EmulatedForTests()).Sources()) {
      module += source.text;
    }
    EXPECT_GT(CompileByNvrtc(module, 90).size(), 1000u);
  }
}

/// Operands are read where a projection left them, and the result lies as its user wants it.
TEST(FoldAttentionViews, ReadsPartsOfAProjection) {
  Graph graph = ParseGraph(R"(
    %0 = input : bf16[2,20,96]
    %1 = reshape %0 {sizes=[2,20,3,2,16]} : bf16[2,20,3,2,16]
    %2 = permute %1 {dims=[2,0,3,1,4]} : bf16[3,2,2,20,16]
    %3 = slice %2 {dim=0, start=0, size=1, step=1} : bf16[1,2,2,20,16]
    %4 = reshape %3 {sizes=[2,2,20,16]} : bf16[2,2,20,16]
    %5 = slice %2 {dim=0, start=2, size=1, step=1} : bf16[1,2,2,20,16]
    %6 = reshape %5 {sizes=[2,2,20,16]} : bf16[2,2,20,16]
    %7 = input : bf16[2,2,20,16]
    %8:2 = _attention %4, %7, %6, none {is_causal=false, scale=0.25} : bf16[2,2,20,16], f32[2,2,20]
    %9 = permute %8.0 {dims=[0,2,1,3]} : bf16[2,20,2,16]
    %10 = reshape %9 {sizes=[2,20,32]} : bf16[2,20,32]
    return %10)");
  Graph out = RemoveDead(FoldAttentionViews(graph));
  ASSERT_EQ(out.size(), 4);
  const GraphNode& node = out[NodeId(2)];
  EXPECT_EQ(node.inputs[0], (GraphValue{NodeId(0), 0}));
  EXPECT_EQ(node.inputs[1], (GraphValue{NodeId(1), 0}));
  EXPECT_EQ(node.inputs[2], (GraphValue{NodeId(0), 0}));
  EXPECT_EQ(node.types[0].sizes(), (Dims{2, 20, 2, 16}));
  auto rows = [&](size_t which) {
    RowLayout layout = LayoutOf(node, which);
    return Dims{layout.offset, layout.outer, layout.inner, layout.row};
  };
  EXPECT_EQ(rows(0), (Dims{0, 20 * 96, 16, 96}));
  EXPECT_EQ(rows(1), (Dims{0, 2 * 20 * 16, 20 * 16, 16}));
  EXPECT_EQ(rows(2), (Dims{64, 20 * 96, 16, 96}));
  EXPECT_EQ(rows(3), (Dims{0, 20 * 32, 16, 32}));
}

TEST(CopiesToWhere, OneIndexIsSelected) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[1,4]
    %1 = constant {value=0, dtype=f32} : f32[]
    %2 = broadcast %1 {sizes=[3,4]} : f32[3,4]
    %3 = update_slice %2, %0 {dim=0, start=2, step=1} : f32[3,4]
    return %3)");
  EXPECT_EQ(
      hammock::ToText(RemoveDead(CopiesToWhere(graph))),
      "%0 = input : f32[1,4]\n%1 = constant {value=0, dtype=f32} : f32[]\n"
      "%2 = broadcast %1 {sizes=[3,4]} : f32[3,4]\n%3 = iota {size=3, dtype=i64} : i64[3]\n"
      "%4 = constant {value=2, dtype=i64} : i64[]\n%5 = broadcast %4 {sizes=[3]} : i64[3]\n"
      "%6 = eq %3, %5 : bool[3]\n%7 = reshape %6 {sizes=[3,1]} : bool[3,1]\n"
      "%8 = broadcast %7 {sizes=[3,4]} : bool[3,4]\n%9 = broadcast %0 {sizes=[3,4]} : f32[3,4]\n"
      "%10 = where %8, %9, %2 : f32[3,4]\nreturn %10\n");
}

TEST(CopiesToWhere, OtherSlicesAreLeftAlone) {
  for (const char* text :
       {"    %0 = input : f32[2,4]\n    %1 = constant {value=0, dtype=f32} : f32[]\n"
        "    %2 = broadcast %1 {sizes=[3,4]} : f32[3,4]\n"
        "    %3 = update_slice %2, %0 {dim=0, start=1, step=1} : f32[3,4]\n"
        "    return %3",
        "    %0 = input : f32[1,4]\n    %1 = input : f32[3,4]\n"
        "    %2 = update_slice %1, %0 {dim=0, start=1, step=1} : f32[3,4]\n"
        "    return %2"}) {
    Graph graph = ParseGraph(text);
    EXPECT_EQ(hammock::ToText(CopiesToWhere(graph)), hammock::ToText(graph));
  }
}

TEST(CopiesToWhere, HalvesAreSelected) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[3,4]
    %1 = neg %0 : f32[3,4]
    %2 = concat %1, %0 {dim=1} : f32[3,8]
    return %2)");
  EXPECT_EQ(
      hammock::ToText(RemoveDead(CopiesToWhere(graph))),
      "%0 = input : f32[3,4]\n%1 = neg %0 : f32[3,4]\n"
      "%2 = reshape %1 {sizes=[3,1,4]} : f32[3,1,4]\n"
      "%3 = broadcast %2 {sizes=[3,2,4]} : f32[3,2,4]\n"
      "%4 = reshape %0 {sizes=[3,1,4]} : f32[3,1,4]\n"
      "%5 = broadcast %4 {sizes=[3,2,4]} : f32[3,2,4]\n%6 = iota {size=2, dtype=i64} : i64[2]\n"
      "%7 = constant {value=0, dtype=i64} : i64[]\n%8 = broadcast %7 {sizes=[2]} : i64[2]\n"
      "%9 = eq %6, %8 : bool[2]\n%10 = reshape %9 {sizes=[1,2,1]} : bool[1,2,1]\n"
      "%11 = broadcast %10 {sizes=[3,2,4]} : bool[3,2,4]\n%12 = where %11, %3, %5 : f32[3,2,4]\n"
      "%13 = reshape %12 {sizes=[3,8]} : f32[3,8]\nreturn %13\n");
}

TEST(CopiesToWhere, PartsInMemoryAndOtherPartsAreCopied) {
  for (const char* text : {"    %0 = input : f32[3,4]\n    %1 = concat %0, %0 {dim=1} : f32[3,8]\n"
                           "    return %1",
                           "    %0 = input : f32[3,4]\n    %1 = neg %0 : f32[3,4]\n"
                           "    %2 = concat %0, %1, %0 {dim=1} : f32[3,12]\n    return %2"}) {
    Graph graph = ParseGraph(text);
    EXPECT_EQ(hammock::ToText(CopiesToWhere(graph)), hammock::ToText(graph));
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

TEST(NarrowMatMuls, TakesSixteenBitOperandsAndRoundsOnce) {
  Graph graph = ParseGraph(R"(
    %0 = input : bf16[8,16]
    %1 = input : bf16[4,16]
    %2 = input : bf16[4]
    %3 = cast %0 {dtype=f32} : f32[8,16]
    %4 = cast %1 {dtype=f32} : f32[4,16]
    %5 = cast %2 {dtype=f32} : f32[4]
    %6 = dot_general %3, %4 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[8,4]
    %7 = broadcast %5 {sizes=[8,4]} : f32[8,4]
    %8 = add %6, %7 : f32[8,4]
    %9 = cast %8 {dtype=bf16} : bf16[8,4]
    return %9)");
  EXPECT_EQ(
      hammock::ToText(RemoveDead(RoundMatMuls(RemoveDead(NarrowMatMuls(graph))))),
      "%0 = input : bf16[8,16]\n%1 = input : bf16[4,16]\n%2 = input : bf16[4]\n"
      "%3 = _dot_general_fused %0, %1, %2 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[], "
      "dtype=bf16, relu=false} : bf16[8,4]\nreturn %3\n");
}

TEST(NarrowMatMuls, KeepsSumsThatOthersReadInFull) {
  Graph graph = ParseGraph(R"(
    %0 = input : bf16[8,16]
    %1 = input : bf16[16,4]
    %2 = cast %0 {dtype=f32} : f32[8,16]
    %3 = cast %1 {dtype=f32} : f32[16,4]
    %4 = dot_general %2, %3 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[8,4]
    %5 = cast %4 {dtype=bf16} : bf16[8,4]
    return %5, %4)");
  EXPECT_TRUE(Has(hammock::ToText(RoundMatMuls(RemoveDead(NarrowMatMuls(graph)))),
                  "%2 = _dot_general_fused %0, %1, none {a_contract=[1], b_contract=[0], "
                  "a_batch=[], b_batch=[], dtype=f32, relu=false} : f32[8,4]\n%3 = cast %2 "
                  "{dtype=bf16} : bf16[8,4]\nreturn %3, %2"));
}

/// relu(a b + bias), perhaps with the sum as a second result, which keeps the matmul apart.
std::string ReluText(int64_t m, int64_t n, int64_t k, int along, bool apart) {
  std::string b = along == 1 ? fmt::format("{},{}", n, k) : fmt::format("{},{}", k, n);
  return fmt::format(R"(
    %0 = input : f32[{0},{2}]
    %1 = input : f32[{3}]
    %2 = input : f32[{1}]
    %3 = dot_general %0, %1 {{a_contract=[1], b_contract=[{4}], a_batch=[], b_batch=[]}} : f32[{0},{1}]
    %4 = broadcast %2 {{sizes=[{0},{1}]}} : f32[{0},{1}]
    %5 = add %3, %4 : f32[{0},{1}]
    %6 = constant {{value=0.0:f32, dtype=f32}} : f32[]
    %7 = broadcast %6 {{sizes=[{0},{1}]}} : f32[{0},{1}]
    %8 = maximum %5, %7 : f32[{0},{1}]
    return %8{5})",
                     m, n, k, b, along, apart ? ", %3" : "");
}

TEST(FuseBiasAndRelu, BothBecomePartOfTheMatmul) {
  std::string text =
      hammock::ToText(RemoveDead(FuseBiasAndRelu(ParseGraph(ReluText(8, 4, 16, 1, false)))));
  EXPECT_TRUE(Has(text,
                  "%3 = _dot_general_fused %0, %1, %2 {a_contract=[1], b_contract=[1], a_batch=[], "
                  "b_batch=[], dtype=f32, relu=true} : f32[8,4]\nreturn %3"));
  std::string apart = hammock::ToText(FuseBiasAndRelu(ParseGraph(ReluText(8, 4, 16, 1, true))));
  EXPECT_TRUE(Has(apart, "maximum"));
}

TEST(FuseBiasAndRelu, ChangesNoBit) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  struct Case {
    int64_t m, n, k;
    int along;
  };
  // One thread, one warp for each element, and the library.
  for (Case c : {Case{8, 4, 16, 1}, Case{33, 10, 300, 1}, Case{80, 64, 70, 0}}) {
    std::vector<std::vector<HostTensor>> results;
    for (bool apart : {false, true}) {
      Graph graph = ParseGraph(ReluText(c.m, c.n, c.k, c.along, apart));
      std::vector<HostTensor> inputs;
      for (NodeId id : graph.inputs()) {
        HostTensor input(graph[id].type());
        float* values = static_cast<float*>(input.mutable_data());
        for (int64_t i = 0; i < graph[id].type().numel(); ++i) {
          values[i] = static_cast<float>((i * 37 + id.number() * 11) % 101) / 101 - 0.5f;
        }
        values[2] = id == NodeId(2) ? NAN : values[2];
        inputs.push_back(std::move(input));
      }
      Program program(graph, EmulatedForTests());
      results.push_back(RunProgram(*EmulatedForTests(), program, graph, inputs));
    }
    EXPECT_EQ(
        std::memcmp(results[0][0].data(), results[1][0].data(), static_cast<size_t>(c.m * c.n * 4)),
        0)
        << c.m;
    float* made = static_cast<float*>(results[0][0].mutable_data());
    EXPECT_TRUE(std::isnan(made[2]));
    EXPECT_GE(made[0], 0);
    // The sums are those of the matmul.
    const float* sums = static_cast<const float*>(results[1][1].data());
    int64_t positive = 0;
    for (int64_t i = 0; i < c.m * c.n; ++i) positive += sums[i] > 1e-3f;
    EXPECT_GT(positive, 0);
  }
}

}  // namespace
}  // namespace hammock::cuda
