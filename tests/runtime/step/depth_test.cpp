// Chains of a million ops trace, run, print and are freed on an 8 MB stack.

#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/child.h"
#include "support/sanitizers.h"

namespace hammock {
namespace {

using namespace hammock::testing;

// The sanitizers take their share of time and stack.
constexpr int64_t kOps = kAddressSanitizer || kThreadSanitizer ? 100'000 : 1'000'000;
/// A tenth of the longest chain, so that budgets end steps in shorter ones too.
constexpr int64_t kBudget = kOps / 10;

ChildResult RunChain(const std::string& mode, int64_t ops = kOps) {
  return RunChild({HAMMOCK_DEPTH_CHILD, mode, std::to_string(ops), std::to_string(kBudget)}, 300,
                  8192);
}

long PeakOf(const ChildResult& result) {
  size_t at = result.output.find("ok ");
  return at == std::string::npos ? -1 : std::atol(result.output.c_str() + at + 3);
}

class Depth : public ::testing::TestWithParam<const char*> {};

TEST_P(Depth, AMillionOpsAreFine) {
  ChildResult result = RunChain(GetParam());
  EXPECT_TRUE(Succeeded(result));
  EXPECT_GT(PeakOf(result), 0) << result.output;
  RecordProperty("peak_mb", static_cast<int>(PeakOf(result)));
}

INSTANTIATE_TEST_SUITE_P(Chains, Depth,
                         ::testing::Values("free", "dump", "run", "step", "trim", "failed"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DepthOfViews, ManyWritesThroughViewsAreFine) {
  EXPECT_TRUE(Succeeded(RunChain("views", kOps / 10)));
}

TEST(DepthMemory, TrimsKeepItBounded) {
  ChildResult small = RunChain("trim", kOps / 2), large = RunChain("trim", kOps);
  ASSERT_TRUE(Succeeded(small));
  ASSERT_TRUE(Succeeded(large));
  EXPECT_LT(PeakOf(large), PeakOf(small) * 5 / 4 + 20) << "grows with the number of ops";
}

}  // namespace
}  // namespace hammock
