// Training on 2 and 4 ranks against the same on one.

#include "distributed/ranks.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class ParallelRanks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (std::string why = WhyNoEngine(); !why.empty()) GTEST_SKIP() << why;
  }
  void Succeed(const std::string& scenario, const char* program = HAMMOCK_PARALLEL_CHILD) {
    std::vector<ChildResult> results = RunRanks(GetParam(), {program, scenario}, 60000);
    for (size_t rank = 0; rank < results.size(); ++rank) {
      EXPECT_TRUE(Succeeded(results[rank])) << "rank " << rank;
    }
  }
};

TEST_P(ParallelRanks, DropTheSameOfABatchInParts) { Succeed("data_parallel"); }
TEST_P(ParallelRanks, DealPartsOfBatches) { Succeed("dealt_batches"); }
TEST_P(ParallelRanks, SendWhileTheyCompute) { Succeed("overlap"); }
TEST_P(ParallelRanks, ShareOutOptimizerState) { Succeed("stage_1"); }
TEST_P(ParallelRanks, ShareOutGradients) { Succeed("stage_2"); }
TEST_P(ParallelRanks, ShareOutParameters) { Succeed("fully_sharded"); }
TEST_P(ParallelRanks, LimitTheNormOfAllShards) { Succeed("clipped"); }
TEST_P(ParallelRanks, SkipAStepTogether) { Succeed("skipped"); }
TEST_P(ParallelRanks, ResumeFromShards) { Succeed("resumed"); }
TEST_P(ParallelRanks, ShareOutLayers) { Succeed("tensor_parallel"); }
TEST_P(ParallelRanks, ShareOutShards) { Succeed("shards_of_shards"); }
TEST_P(ParallelRanks, ShareOutSequences) { Succeed("sequence_parallel"); }
TEST_P(ParallelRanks, ShareOutStages) { Succeed("pipeline"); }
TEST_P(ParallelRanks, RunFunctionsOfWholeTensors) {
  Succeed("by_annotation", HAMMOCK_SHARDING_CHILD);
}
TEST_P(ParallelRanks, ShareCheckpoints) { Succeed("checkpoints"); }
TEST_P(ParallelRanks, LeaveAWholeCheckpointWhenOneIsKilled) {
  std::vector<ChildResult> results =
      RunRanks(GetParam(), {HAMMOCK_PARALLEL_CHILD, "killed_in_save"}, 60000);
  for (size_t rank = 0; rank + 1 < results.size(); ++rank) {
    EXPECT_TRUE(Succeeded(results[rank])) << "rank " << rank;
  }
}
INSTANTIATE_TEST_SUITE_P(Of, ParallelRanks, ::testing::Values(2, 4),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace hammock
