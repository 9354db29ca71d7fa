// Programs of 2 and 4 ranks. `make faults` runs those that fail 100 times.

#include "distributed/ranks.h"

namespace hammock {
namespace {

using namespace hammock::testing;

// The time limit of ranks. A short one is for faults that nothing else shows.
constexpr int kPatient = 60000, kImpatient = 5000;

class Ranks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (std::string why = WhyNoEngine(); !why.empty()) GTEST_SKIP() << why;
  }
  std::vector<ChildResult> Run(const std::string& scenario, int timeout_ms = kPatient) {
    return RunRanks(GetParam(), {HAMMOCK_DISTRIBUTED_CHILD, scenario}, timeout_ms);
  }
  void Succeed(const std::string& scenario) {
    std::vector<ChildResult> results = Run(scenario);
    for (size_t rank = 0; rank < results.size(); ++rank) {
      EXPECT_TRUE(Succeeded(results[rank])) << "rank " << rank;
    }
  }
};

TEST_P(Ranks, RunCollectives) { Succeed("collectives"); }
TEST_P(Ranks, SendAllSizesAndDTypes) { Succeed("sizes"); }
TEST_P(Ranks, HaveGradients) { Succeed("gradients"); }
TEST_P(Ranks, FormGroups) { Succeed("groups"); }
TEST_P(Ranks, MayKeepAndReadDifferentValues) { Succeed("order"); }
TEST_P(Ranks, RunCollectivesOfLoops) { Succeed("loops"); }
TEST_P(Ranks, ReduceManyTensorsInBuckets) { Succeed("buckets"); }
TEST_P(Ranks, MergeCollectivesThatFollowEachOther) { Succeed("merges"); }
TEST_P(Ranks, ReplayCapturedGraphs) { Succeed("captured"); }
TEST_P(Ranks, TrainAsOneRankWithTheWholeBatch) { Succeed("training"); }
TEST_P(Ranks, AreWaitedForWhileTheyCompile) { Succeed("slow_compile"); }
TEST_P(Ranks, AreNotPreemptedByTheirEngine) { Succeed("engine_threads"); }
TEST_P(Ranks, GiveTheSameBitsInEveryRun) {
  std::string bits;
  for (int run = 0; run < 2; ++run) {
    for (const ChildResult& result : Run("bits")) {
      ASSERT_TRUE(Succeeded(result));
      if (bits.empty()) bits = result.output;
      EXPECT_EQ(result.output, bits);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Of, Ranks, ::testing::Values(2, 4),
                         [](const auto& info) { return std::to_string(info.param); });

class Divergence : public Ranks {
 protected:
  /// All ranks raise the same error, which has these parts in this order.
  void Diverge(const std::string& scenario, const std::vector<std::string>& parts) {
    std::vector<ChildResult> results = Run(scenario);
    for (size_t rank = 0; rank < results.size(); ++rank) {
      ASSERT_TRUE(Succeeded(results[rank])) << "rank " << rank;
      EXPECT_EQ(results[rank].output.find("diverged: group 'world'"), 0) << results[rank].output;
      size_t at = 0;
      for (const std::string& part : parts) {
        const size_t found = results[rank].output.find(part, at);
        EXPECT_NE(found, std::string::npos) << part << " is not in\n" << results[rank].output;
        if (found != std::string::npos) at = found;
      }
    }
  }
};

TEST_P(Divergence, OfShapesNamesBothLines) {
  Diverge("wrong_shape",
          {"rank 1: all_reduce", "f32[3] [at", "divergence.cpp:", "f32[4] [at", "divergence.cpp:"});
}
TEST_P(Divergence, OfOrderNamesTheFirstCollective) {
  Diverge("wrong_order", {"first collective that differs", "rank 1: all_gather", "all_reduce"});
}
TEST_P(Divergence, OfBranchesNamesTheFirstOp) {
  Diverge("wrong_branch", {"first collective", "rank 1: all_reduce reduction=\"max\"", "first op",
                           "rank 1: exp", "mul"});
}
TEST_P(Divergence, OfReductions) {
  Diverge("wrong_reduction", {"rank 1: all_reduce reduction=\"mean\""});
}
TEST_P(Divergence, OfLoopCounts) {
  Diverge("wrong_count", {"first collective", "rank 1: all_reduce", "in loop count=3 [at",
                          "collectives.cpp:", "in loop count=2 [at", "collectives.cpp:"});
}
TEST_P(Divergence, OfOptions) {
  Diverge("wrong_config", {"rank 1: all_reduce", "f32[4]", "f32[6]"});
}
TEST_P(Divergence, OfARankThatEndsEarly) {
  Diverge("step_too_few", {"rank 1: shutdown [at", "all_reduce"});
}
TEST_P(Divergence, OfASkippedStepShowsAtTheEnd) {
  Diverge("skipped_step", {"in operation 4", "rank 1: shutdown [at", "all_reduce"});
}
INSTANTIATE_TEST_SUITE_P(Of, Divergence, ::testing::Values(2, 4),
                         [](const auto& info) { return std::to_string(info.param); });

class Faults : public Ranks {
 protected:
  void Survive(const std::string& scenario, const std::string& why, int timeout_ms) {
    std::vector<ChildResult> results = Run(scenario, timeout_ms);
    for (size_t rank = 0; rank + 1 < results.size(); ++rank) {
      ASSERT_TRUE(Succeeded(results[rank])) << "rank " << rank;
      EXPECT_NE(results[rank].output.find("survived"), std::string::npos);
      EXPECT_NE(results[rank].output.find(why), std::string::npos) << results[rank].output;
    }
  }
};

TEST_P(Faults, OfAKilledRankAreSurvived) { Survive("killed", "has died", kPatient); }
TEST_P(Faults, OfARankThatExitsAreSurvived) { Survive("exited", "has died", kPatient); }
TEST_P(Faults, OfALateRankAreSurvived) { Survive("late", "does not answer", kImpatient); }
TEST_P(Faults, OfAStoppedRankAreSurvived) { Survive("stopped", "does not answer", kImpatient); }
TEST_P(Faults, OfARankThatLeavesAStepAreRaised) { Succeed("leaves_step"); }
TEST_P(Faults, OfUnequalStepsAreRefused) { Succeed("unequal_steps"); }
TEST_P(Faults, OfARankThatThrowsAreRaised) {
  for (const char* scenario : {"throws", "throws_before"}) {
    for (const ChildResult& result : Run(scenario)) EXPECT_TRUE(Succeeded(result)) << scenario;
  }
}
INSTANTIATE_TEST_SUITE_P(Of, Faults, ::testing::Values(2, 4),
                         [](const auto& info) { return std::to_string(info.param); });

TEST(Meeting, NamesRanksThatDoNotCome) {
  for (const ChildResult& result :
       RunRanks(3, {HAMMOCK_DISTRIBUTED_CHILD, "missing_rank"}, 1000, /*started=*/2)) {
    EXPECT_TRUE(Succeeded(result));
    EXPECT_NE(result.output.find("2 did not come"), std::string::npos) << result.output;
  }
}

}  // namespace
}  // namespace hammock
