// Ranks with GPUs: emulated ones, connected by a library with NCCL's symbols.

#include <chrono>

#include "backends/cuda/emulated.h"
#include "distributed/ranks.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class Gpus : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string why = WhyNoEngine(); !why.empty()) GTEST_SKIP() << why;
    if (std::string why = cuda::WhyNotEmulated(); !why.empty()) GTEST_SKIP() << why;
  }
  /// `asked` is NCCL_STAND_IN.
  std::vector<ChildResult> Run(int ranks, const std::string& scenario,
                               const std::string& asked = "", int timeout_ms = 60000,
                               int devices = 0) {
    return RunRanks(ranks,
                    {"/usr/bin/env", "HAMMOCK_DEVICE=cuda", "HAMMOCK_CUDA_EMULATE=g++",
                     "HAMMOCK_CUDA_VIRTUAL_DEVICES=" + std::to_string(devices),
                     "HAMMOCK_CUDA_NCCL=" HAMMOCK_NCCL_STAND_IN, "NCCL_STAND_IN=" + asked,
                     HAMMOCK_DISTRIBUTED_CHILD, scenario},
                    timeout_ms);
  }
  void Succeed(int ranks, const std::string& scenario, const std::string& asked = "") {
    for (const ChildResult& result : Run(ranks, scenario, asked)) EXPECT_TRUE(Succeeded(result));
  }
};

TEST_F(Gpus, RunCollectives) { Succeed(2, "gpu_collectives"); }
/// With three ranks shares of elements differ, and a sum that is rounded more than once shows.
TEST_F(Gpus, SendAllSizesAndDTypes) { Succeed(3, "gpu_sizes"); }
TEST_F(Gpus, MergeCollectivesThatFollowEachOther) { Succeed(3, "gpu_merges"); }
TEST_F(Gpus, MergeThroughTheHostWhereNcclCannotConnectThem) {
  Succeed(2, "gpu_staged_merges", "refuse");
}
TEST_F(Gpus, TrainAsOneRankWithTheWholeBatch) { Succeed(2, "training"); }
TEST_F(Gpus, GoThroughTheHostWhereNcclCannotConnectThem) { Succeed(2, "gpu_staged", "refuse"); }
TEST_F(Gpus, TakeOneEachOfSeveral) {
  for (const ChildResult& result : Run(3, "own_device", "refuse", 60000, /*devices=*/2)) {
    EXPECT_TRUE(Succeeded(result));
  }
}
TEST_F(Gpus, GoThroughTheHostWhereOneRankHasNone) { Succeed(2, "mixed_devices"); }
TEST_F(Gpus, HaveTheBitsOfOtherDevices) {
  std::string bits;
  for (const ChildResult& result : Run(2, "bits")) {
    ASSERT_TRUE(Succeeded(result));
    bits = result.output;
  }
  for (const ChildResult& result :
       RunRanks(2,
                {"/usr/bin/env", "HAMMOCK_DEVICE=cpu", "HAMMOCK_LOG_LEVEL=error",
                 HAMMOCK_DISTRIBUTED_CHILD, "bits"},
                60000)) {
    EXPECT_EQ(result.output, bits);
  }
}
/// Also of one whose op failed on its GPU: it sends nothing of what it computed after.
TEST_F(Gpus, FaultsOfARankThatThrowsAreRaised) {
  for (const char* asked : {"", "refuse"}) {
    Succeed(2, "throws", asked);
    Succeed(2, "throws_before", asked);
  }
}
TEST_F(Gpus, DivergenceOfBranchesIsRaised) {
  for (const ChildResult& result : Run(2, "wrong_branch")) {
    EXPECT_TRUE(Succeeded(result));
    EXPECT_NE(result.output.find("rank 1: all_reduce reduction=\"max\""), std::string::npos)
        << result.output;
  }
}
TEST_F(Gpus, FaultsOfALateRankAreSurvived) {
  std::vector<ChildResult> results = Run(3, "late", "", 5000);
  for (size_t rank = 0; rank + 1 < results.size(); ++rank) {
    EXPECT_TRUE(Succeeded(results[rank])) << "rank " << rank;
    EXPECT_NE(results[rank].output.find("does not answer"), std::string::npos)
        << results[rank].output;
    EXPECT_NE(results[rank].output.find("survived"), std::string::npos) << results[rank].output;
  }
}
TEST_F(Gpus, FaultsOfARankThatDiesInACollectiveAreSurvived) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<ChildResult> results = Run(3, "killed_in_nccl");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << "the time limit";
  for (size_t rank = 0; rank + 1 < results.size(); ++rank) {
    ASSERT_TRUE(Succeeded(results[rank])) << "rank " << rank;
    EXPECT_NE(results[rank].output.find("has died"), std::string::npos) << results[rank].output;
    EXPECT_NE(results[rank].output.find("survived"), std::string::npos) << results[rank].output;
  }
}

}  // namespace
}  // namespace hammock
