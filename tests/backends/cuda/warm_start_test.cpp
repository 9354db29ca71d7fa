// A second process that finds everything in `cache_dir`, without NVRTC.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/emulated.h"
#include "runtime/child.h"

namespace hammock::cuda {
namespace {

namespace fs = std::filesystem;
using hammock::testing::ChildResult;

struct Card {
  std::string device;
  std::string child;
  std::string libraries;  // that has the driver
  std::string (*why_absent)();
};

void PrintTo(const Card& card, std::ostream* out) { *out << card.device; }

std::string FolderOf(const char* file) { return fs::path(file).parent_path().string() + ":"; }

class CudaWarmStart : public ::testing::TestWithParam<Card> {
 protected:
  void SetUp() override {
    cache_ = ::testing::TempDir() + "/hammock_gpu_warm_start_" + std::to_string(getpid());
    fs::remove_all(cache_);
  }
  void TearDown() override { fs::remove_all(cache_); }

  /// `libraries` are folders, each with a colon behind it.
  ChildResult Run(const std::string& mode, const std::string& libraries) const {
    const char* others = std::getenv("LD_LIBRARY_PATH");
    return testing::RunChild({"/usr/bin/env", "HAMMOCK_CACHE_DIR=" + cache_,
                              "HAMMOCK_DEVICE=" + GetParam().device,  // no other one compiles
                              "LD_LIBRARY_PATH=" + libraries + (others ? others : ""),
                              GetParam().child, GetParam().device, mode});
  }
  static std::string ResultsOf(const ChildResult& child) {
    size_t at = child.output.find("results ");
    return child.output.substr(at, child.output.find('\n', at) - at);
  }

  std::string cache_;
};

TEST_P(CudaWarmStart, CompilesNothing) {
  if (std::string why = GetParam().why_absent(); !why.empty()) GTEST_SKIP() << why;
  const std::string& libraries = GetParam().libraries;
  ChildResult cold = Run("cold", libraries);
  ASSERT_TRUE(testing::Succeeded(cold)) << cold.output;
  EXPECT_EQ(cold.output.find(" 0 kernels compiled"), std::string::npos) << cold.output;
  ChildResult warm = Run("warm", FolderOf(HAMMOCK_NO_NVRTC) + libraries);
  EXPECT_TRUE(testing::Succeeded(warm)) << warm.output;
  EXPECT_EQ(ResultsOf(warm), ResultsOf(cold));
}

INSTANTIATE_TEST_SUITE_P(, CudaWarmStart,
                         ::testing::Values(Card{"fake", HAMMOCK_FAKE_GPU_CHILD,
                                                FolderOf(HAMMOCK_FAKE_DRIVER), WhyNotEmulated},
                                           Card{"cuda", HAMMOCK_GPU_CHILD, "", WhyNoGpu}),
                         [](const auto& info) { return info.param.device; });

}  // namespace
}  // namespace hammock::cuda
