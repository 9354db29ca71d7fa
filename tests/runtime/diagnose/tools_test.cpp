// NVTX ranges, by a library that keeps them. Names for perf and gdb: native_code_test.cpp.

#include "base/tools.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "backends/cuda/emulated.h"
#include "base/log.h"
#include "hammock/hammock.h"
#include "hammock/ir/graph.h"

namespace hammock {
namespace {

/// Opened before Hammock asks for a library of that name.
class Tools : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    void* library = dlopen(HAMMOCK_FAKE_NVTX, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    names = reinterpret_cast<decltype(names)>(dlsym(library, "fake_nvtx_names"));
    depth = reinterpret_cast<decltype(depth)>(dlsym(library, "fake_nvtx_depth"));
  }

  /// The ranges of `work`, without the lines of steps.
  template <class Work>
  std::vector<std::string> RangesOf(Work work) {
    const size_t before = names().size();
    work();
    std::vector<std::string> all = names();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before));
    for (std::string& name : all) name = name.substr(0, name.find(" at "));
    return all;
  }

  static inline std::vector<std::string> (*names)() = nullptr;
  static inline int (*depth)() = nullptr;
};

void RunStep(const char* device) {
  Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}, f32, device);
  matmul(exp(x) + 1.0f, x).host();
}

TEST_F(Tools, NvtxShowsStepsAndKernels) {
  RunStep("cpu");  // what comes before the option is not shown
  config::Override nvtx("tools", "nvtx");
  std::vector<std::string> ranges = RangesOf([] { RunStep("cpu"); });
  ASSERT_GE(ranges.size(), 2u);
  EXPECT_EQ(ranges[0], "cpu:0 step");
  EXPECT_EQ(ranges[1].substr(0, 1), " ");
  bool has_exp = false;
  for (const std::string& name : ranges) has_exp |= name.find("exp") != std::string::npos;
  EXPECT_TRUE(has_exp) << ::testing::PrintToString(ranges);
  EXPECT_EQ(depth(), 0);
}

TEST_F(Tools, NvtxShowsKernelsOfEveryRunOnCuda) {
  if (std::string reason = cuda::WhyNotEmulated(); !reason.empty()) GTEST_SKIP() << reason;
  Graph graph = ParseGraph(R"(
    %0 = input : f32[8]
    %1 = exp %0 : f32[8]
    return %1)");
  cuda::Program program(graph, cuda::EmulatedForTests());
  config::Override nvtx("tools", "nvtx");
  std::vector<std::string> ranges = RangesOf([&] {
    cuda::RunProgram(*cuda::EmulatedForTests(), program, graph, {HostTensor(Shape(f32, {8}))}, 3);
  });
  EXPECT_EQ(ranges, (std::vector<std::string>{"exp", "exp", "exp"}));
}

TEST_F(Tools, NvtxRangesEndWhereAStepFails) {
  config::Override nvtx("tools", "nvtx");
  Tensor singular = zeros({3, 3}, f32, "reference");
  std::vector<std::string> ranges =
      RangesOf([&] { EXPECT_THROW(linalg_inv(singular).host(), Error); });
  EXPECT_EQ(ranges[0], "reference:0 step");
  EXPECT_EQ(depth(), 0);
}

TEST_F(Tools, NothingIsShownUnasked) {
  EXPECT_TRUE(RangesOf([] { RunStep("cpu"); }).empty());
  config::Override others("tools", "perf,gdb");
  EXPECT_TRUE(tools::IsOn(tools::kPerf));
  EXPECT_TRUE(tools::IsOn(tools::kGdb));
  EXPECT_FALSE(tools::IsOn(tools::kNvtx));
}

TEST_F(Tools, RefusesUnknownOnes) {
  EXPECT_THROW(config::Set("tools", "perf,vtune"), ValueError);
  EXPECT_FALSE(tools::IsOn(tools::kPerf));
}

TEST_F(Tools, OldOptionsWorkForOneVersion) {
  LogCapture log;
  config::Override perf("cpu.perf_map", "true");
  EXPECT_TRUE(tools::IsOn(tools::kPerf));
  EXPECT_FALSE(tools::IsOn(tools::kGdb));
  config::Override gdb("cpu.gdb", "true");
  EXPECT_TRUE(tools::IsOn(tools::kGdb));
  EXPECT_EQ(log.text(),
            "warn: config: option 'cpu.perf_map' is now tools=perf; the next version does not know "
            "it\nwarn: config: option 'cpu.gdb' is now tools=gdb; the next version does not know "
            "it\n");
}

}  // namespace
}  // namespace hammock
