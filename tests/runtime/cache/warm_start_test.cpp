// A second process that finds everything in `cache_dir`.

#include <gtest/gtest.h>

#include <filesystem>

#include "backends/cpu/code/llvm_compiler.h"
#include "runtime/child.h"

namespace hammock::testing {
namespace {

namespace fs = std::filesystem;

class WarmStart : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/hammock_warm_start";
    fs::remove_all(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  ChildResult Run(const std::string& mode, const std::string& setting) {
    return RunChild({"/usr/bin/env", "HAMMOCK_CACHE_DIR=" + dir_, setting, HAMMOCK_WARM_START_CHILD,
                     "cpu", mode});
  }
  static std::string ResultsOf(const ChildResult& child) {
    size_t at = child.output.find("results ");
    return child.output.substr(at, child.output.find('\n', at) - at);
  }

  std::string dir_;
};

TEST_F(WarmStart, CompilesNothing) {
  if (std::string why = cpu::LlvmCompiler::WhyAbsent(); !why.empty()) GTEST_SKIP() << why;
  // Otherwise the process might end before all of its code is compiled.
  ChildResult cold = Run("cold", "HAMMOCK_CPU_WAIT_FOR_CODE=true");
  ASSERT_TRUE(Succeeded(cold));
  ChildResult warm = Run("warm", "HAMMOCK_CPU_LLVM_PLUGIN=/there/is/no/llvm.so");
  EXPECT_TRUE(Succeeded(warm)) << warm.output;
  EXPECT_EQ(ResultsOf(warm), ResultsOf(cold));
}

}  // namespace
}  // namespace hammock::testing
