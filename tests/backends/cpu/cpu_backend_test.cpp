// The device "cpu" as a user sees it. Values are the business of the fuzzer and of the golden
// suite.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "backends/cpu/code/kernel_code.h"
#include "backends/cpu/code/llvm_compiler.h"
#include "backends/cpu/host/host_allocator.h"
#include "backends/cpu/program.h"
#include "hammock/hammock.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::cpu {
namespace {

const Device kCpu("cpu");

int64_t Count(const char* name) { return metrics::CounterValue(name).value_or(0); }

Tensor Values(const Dims& sizes, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-2, 2);
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()));
  for (float& value : values) value = number(random);
  return tensor(values, sizes).to(kCpu);
}

Tensor Layer(const Tensor& x, const Tensor& w) {
  return softmax(gelu(matmul(x, w)) + x.mean(), -1) * 3.0;
}

TEST(CpuBackend, IsTheDefaultWhereThereIsACompiler) {
  if (!config::GetText("device").empty()) GTEST_SKIP() << "another device is chosen";
  bool compiler = LlvmCompiler::WhyAbsent().empty();
  EXPECT_EQ(Device().type(), compiler ? "cpu" : "reference");
}

TEST(CpuBackend, GivesTheSameBitsBeforeAndAfterItsKernelsAreCompiled) {
  Tensor x = Values({33, 65}, 1);
  Tensor w = Values({65, 65}, 2);
  int64_t before = Count("cpu::KernelRunsInterpreted");
  HostTensor first = Layer(x, w).host();
  bool interpreted = Count("cpu::KernelRunsInterpreted") > before;
  WaitForCode();
  int64_t compiled = Count("cpu::KernelRunsCompiled");
  HostTensor second = Layer(x, w).host();
  EXPECT_TRUE(first.SameBits(second));
  if (!LlvmCompiler::WhyAbsent().empty()) GTEST_SKIP() << LlvmCompiler::WhyAbsent();
  EXPECT_GT(Count("cpu::KernelRunsCompiled"), compiled);
  EXPECT_TRUE(interpreted || config::Get<cpu::kWaitForCode>());
}

TEST(CpuBackend, TheExtremesOfARowWithANanAreNans) {
  constexpr int64_t kRows = 150, kColumns = 147;  // whole vectors, and what is left of a row
  config::Override wait("cpu.wait_for_code", "true");
  for (int64_t columns : {int64_t{64}, kColumns}) {
    std::vector<float> values(static_cast<size_t>(kRows * columns), 2);
    for (int64_t row = 0; row < kRows; row += 2) {
      values[row * columns + row % columns] = std::nanf("");
    }
    Tensor x = tensor(values, {kRows, columns}).to(kCpu);
    std::vector<float> largest = amax(x, {1}).to_vector<float>();
    std::vector<float> smallest = amin(x, {1}).to_vector<float>();
    for (size_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(std::isnan(largest[row]), row % 2 == 0) << row << " of " << columns;
      EXPECT_EQ(std::isnan(smallest[row]), row % 2 == 0) << row << " of " << columns;
      if (row % 2 == 1) {
        EXPECT_EQ(largest[row] + smallest[row], 4);
      }
    }
  }
}

TEST(CpuBackend, GivesTheSameBitsForAnyNumberOfThreads) {
  HostTensor results[3];
  const char* threads[3] = {"1", "2", "3"};
  for (int i = 0; i < 3; ++i) {
    config::Override some("cpu.threads", threads[i]);
    // Sizes that no other round has, so that each plans for its own threads.
    Tensor x = Values({257, 511}, 3);
    results[i] = cat({sum(softmax(x, 0), {1}), sum(exp(x), {0, 1}).reshape({1})}, 0).host();
  }
  EXPECT_TRUE(results[0].SameBits(results[1]));
  EXPECT_TRUE(results[0].SameBits(results[2]));
}

TEST(CpuBackend, SumsDependOnTheExtentAloneAndNotOnWhereTheDimLies) {
  for (bool compiled : {false, true}) {
    for (int64_t extent : {1, 2, 31, 32, 33, 63, 64, 65, 100, 128, 1000}) {
      for (int64_t others : {1, 15, 16, 17, 63, 64, 65, 130}) {
        Tensor x = Values({extent, others}, 9) * 1000.0;
        Tensor transposed = x.t().contiguous();
        HostTensor by_columns = sum(x, {0}).host();
        HostTensor by_rows = sum(transposed, {1}).host();
        EXPECT_TRUE(by_columns.SameBits(by_rows)) << extent << " of " << others;
      }
    }
    if (!compiled) WaitForCode();
  }
}

/// Compiled code multiplies instead where that is exact.
TEST(CpuBackend, DividesByAnyNumberWithTheSameBits) {
  std::vector<float> values = {0.f,   -0.f,    1e-45f,  3e-39f, 1.17549435e-38f,
                               1e38f, 3.4e38f, INFINITY};
  for (int i = 0; i < 200; ++i) values.push_back(std::ldexp(1.0f + 0.01f * i, i - 130));
  Tensor x = tensor(values, {static_cast<int64_t>(values.size())}).to(kCpu);
  for (float divisor :
       {8.f, 0.125f, -4.f, 3.f, 0x1p126f, 0x1p127f, 0x1p-126f, 0x1p-130f, 0.f, INFINITY, 1e-45f}) {
    HostTensor interpreted = (x / divisor).host();
    WaitForCode();
    EXPECT_TRUE(interpreted.SameBits((x / divisor).host())) << divisor;
    std::vector<float> got = (x / divisor).to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      float want = values[i] / divisor;
      if (want == want) {
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want))
            << values[i] << " / " << divisor;
      }
    }
  }
}

TEST(CpuBackend, CompilesNothingNewForNewSizes) {
  Tensor w = Values({40, 40}, 4);
  auto run = [&](int64_t batch) { return Layer(Values({batch, 40}, 5), w).host(); };
  run(17);
  run(23);
  int64_t kernels = Count("cpu::KernelsCompiled");
  std::mt19937 random(6);
  for (int i = 0; i < 64; ++i) {
    int64_t batch = 2 + static_cast<int64_t>(random() % 300);
    HostTensor general = run(batch);
    config::Override alone("generalise", "false");
    EXPECT_TRUE(general.SameBits(run(batch))) << batch;
  }
  EXPECT_LE(Count("cpu::KernelsCompiled") - kernels, 3);
}

TEST(CpuBackend, LargeSlicesOfALoopMayLieAnywhere) {
  // Each slice is large enough to be written past the caches, and of odd size.
  Graph graph = ParseGraph(R"(
    %0 = input : f32[3200017]
    %1 = loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[3200017]
      %2 = neg %1 : f32[3200017]
      return %2
    }, count=3, num_carried=0, num_stacked_in=0} : f32[3,3200017]
    return %1)");
  Program program(graph);
  std::vector<float> in(3200017, 2.0f);
  std::vector<float> out(3 * in.size());
  HostAllocator memory("test");
  void* arena = memory.Allocate(program.plan().arena_bytes, "arena");
  char* in_pointer = reinterpret_cast<char*>(in.data());
  char* out_pointer = reinterpret_cast<char*>(out.data());
  for (int run = 0; run < 2; ++run) {
    program.Run({&in_pointer, 1}, {&out_pointer, 1}, static_cast<char*>(arena));
    EXPECT_EQ(std::count(out.begin(), out.end(), -2.0f), static_cast<int64_t>(out.size()));
    WaitForCode();
  }
  memory.Free(arena, program.plan().arena_bytes);
}

TEST(CpuBackend, OutOfMemoryNamesWhatIsLarge) {
  lazy::BackendImplInterface* backend = lazy::getBackend("cpu");
  lazy::BackendDevice device = backend->GetBackendDevice(0);
  Tensor x = Values({64, 64}, 7);
  x.host();
  backend->SetMemoryLimit(device, backend->GetMemoryInfo(device).in_use + 100000);
  Tensor large = std::get<0>(sort(x.expand({100, 64, 64}) + 1.0));
  try {
    large.host();
    ADD_FAILURE() << "it fitted";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("f32[100,64,64]"), std::string::npos) << error.what();
  }
  backend->SetMemoryLimit(device, 0);
  EXPECT_EQ((x.expand({100, 64, 64}) + 1.0).host().shape(), Shape(f32, {100, 64, 64}));
}

TEST(CpuBackend, MeasuresStepsIfAsked) {
  config::Override timed("cpu.time_kernels", "true");
  Values({5, 7}, 8).tanh().neg().host();
  EXPECT_NE(metrics::Report().find("cpu::kernel::"), std::string::npos);
  EXPECT_NE(metrics::Report({}, {"cpu::step::*"}).find("cpu::kernel::"), std::string::npos)
      << "the old name of the family";
}

TEST(CpuBackend, ShowsGraphStepsAndCode) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[8,4]
    %1 = exp %0 : f32[8,4]
    %2 = dot_general %1, %0 {a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]} : f32[8,8]
    return %2)");
  Program program(graph);
  std::string text = program.ToText("llvm");
  for (const char* part : {"%1 = exp %0 : f32[8,4]", "call dot_general", "launch [] x 1 x 32",
                           "arena ", "define void @kernel_exp(", "fsub <16 x float>"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
  }
}

TEST(CpuBackend, KnowsThePeakOfARunBeforehand) {
  lazy::BackendImplInterface* backend = lazy::getBackend("cpu");
  lazy::BackendDevice device = backend->GetBackendDevice(0);
  Graph graph = ParseGraph(R"(
    %0 = input : f32[512,512]
    %1 = dot_general %0, %0 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[512,512]
    %2 = exp %1 : f32[512,512]
    %3 = dot_general %2, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[512,512]
    return %3)");
  auto computation = std::make_shared<lazy::Computation>("peak", graph, device);
  backend->Compile({computation});
  HostTensor input(Shape(f32, {512, 512}));
  std::fill(input.mutable_values<float>().begin(), input.mutable_values<float>().end(), 0.01f);
  BackendDataPtr data = backend->MakeComputationDataFromTensor(input, input.shape(), device);
  const auto& program = *static_cast<const Program*>(computation->artifact.get());
  // Another allocator of the same kind sees this run alone.
  HostAllocator memory("test");
  HostTensor out = memory.New(Shape(f32, {512, 512}), "output");
  void* arena = memory.Allocate(program.plan().arena_bytes, "arena");
  char* in_pointer = static_cast<char*>(input.mutable_data());
  char* out_pointer = static_cast<char*>(out.mutable_data());
  program.Run({&in_pointer, 1}, {&out_pointer, 1}, static_cast<char*>(arena));
  memory.Free(arena, program.plan().arena_bytes);
  double planned = static_cast<double>(program.plan().peak_bytes());
  EXPECT_NEAR(static_cast<double>(memory.Info().peak), planned, 0.05 * planned);
}

}  // namespace
}  // namespace hammock::cpu
