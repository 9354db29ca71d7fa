// Kernels as text.
#include "backends/cuda/emit/emit_cuda.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/device/device_text.h"
#include "backends/cuda/driver/nvrtc.h"
#include "backends/cuda/emulated.h"
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

/// Where every iteration is full nothing asks for the end of the row.
/// A norm's weight: no thread waits for it after the barrier of the reduction.
TEST(EmitCuda, LoadsDoNotWaitForReductions) {
  Emitted e = Emit(R"(
    %0 = input : f32[4,2048]
    %1 = input : f32[2048]
    %2 = reduce_sum %0 {dims=[1], keepdim=true} : f32[4,1]
    %3 = broadcast %2 {sizes=[4,2048]} : f32[4,2048]
    %4 = mul %0, %3 : f32[4,2048]
    %5 = broadcast %1 {sizes=[4,2048]} : f32[4,2048]
    %6 = mul %4, %5 : f32[4,2048]
    return %6)");
  const std::string load = "load_some<4>(p1 + at, count, m1 + s * 4);";
  EXPECT_TRUE(Has(e.text, load));
  EXPECT_LT(e.text.find(load), e.text.find("__syncthreads()")) << e.text;
  EXPECT_EQ(e.text.find(load), e.text.rfind(load)) << e.text;
}

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

/// Of the iterations of a long row only the last one, which is not full, asks for its end.
TEST(EmitCuda, FullRoundsHaveNoGuards) {
  Emitted e = Emit(R"(
    %0 = input : bf16[300,50304]
    %1 = cast %0 {dtype=f32} : f32[300,50304]
    %2 = reduce_sum %1 {dims=[1], keepdim=false} : f32[300]
    return %2)");
  EXPECT_FALSE(e.config.whole);
  const size_t full = e.text.find("for (; columns - iteration * 1024 >= 1024; ++iteration)");
  const size_t last = e.text.find("if (iteration * 1024 < columns)");
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

}  // namespace
}  // namespace hammock::cuda
