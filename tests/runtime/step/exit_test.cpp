// Processes end in every way at random moments of their work: none crashes or hangs, the output is
// whole, and destructors still use tensors. EXIT_ROUNDS=500 is how many are tried; by default a
// sample.

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "backends/cuda/emulated.h"
#include "distributed/ranks.h"
#include "runtime/child.h"
#include "runtime/step/exit_run.h"

namespace hammock {
namespace {

using namespace hammock::testing;

constexpr const char* kWork[] = {"train", "serve", "compile", "closures", "reference"};

TEST(Exit, IsCleanAtAnyMoment) {
  const int exits = ExitRounds(40);
  std::mt19937 random(static_cast<unsigned>(exits));
  for (int i = 0; i < exits && !::testing::Test::HasFailure(); ++i) {
    int microseconds = static_cast<int>(random() % 1000 * (random() % 1000));
    CheckExit(HAMMOCK_EXIT_CHILD, kWork[random() % std::size(kWork)],
              kWaysToExit[i % std::size(kWaysToExit)], microseconds);
  }
}

/// The same on devices whose steps are queued behind each other and end without a thread of the
/// library: "async" computes on a thread of its own, "cuda" is emulated, "held" is a GPU that never
/// ends. "new:" ones end while kernels are compiled.
TEST(Exit, IsCleanWithStepsOnAsynchronousDevices) {
  TemporaryFolder folder;
  std::vector<std::string> works = {"on:async", "new:async"};
  if (cuda::WhyNotEmulated().empty()) {
    for (const char* work : {"on:cuda", "new:cuda", "on:held"}) works.emplace_back(work);
  }
  const int exits = ExitRounds(15);
  std::mt19937 random(static_cast<unsigned>(exits));
  for (int i = 0; i < exits && !::testing::Test::HasFailure(); ++i) {
    const std::string& work = works[i % works.size()];
    const char* child = work.ends_with(":cuda") ? HAMMOCK_EXIT_CHILD : HAMMOCK_EXIT_CORE_CHILD;
    int microseconds = static_cast<int>(random() % 1000 * (random() % 1000));
    CheckExit(child, work, kWaysToExit[random() % std::size(kWaysToExit)], microseconds,
              {"TMPDIR=" + folder.path()});  // of the emulation's compiler
  }
}

TEST(Exit, DoesNotWaitForACustomCallThatIsStuck) {
  CheckExit(HAMMOCK_EXIT_CHILD, "stuck", "return", 200000);
}

TEST(Exit, CancelsAStepThatTakesLong) {
  CheckExit(HAMMOCK_EXIT_CHILD, "long", "return", 3000000);
  CheckExit(HAMMOCK_EXIT_CHILD, "long_read", "return", 1000000);
}

TEST(Exit, AwaitsAStepThatHasBegunToWriteInPlace) {
  CheckExit(HAMMOCK_EXIT_CHILD, "long_in_place", "return", 300000, {}, /*most_seconds=*/20);
}

TEST(Exit, IsCleanWhileAStepOfGpt2Runs) {
  for (const char* way : {"return", "exit", "immediate_exit"}) {
    CheckExit(HAMMOCK_EXIT_CHILD, "gpt2", way, 0);
  }
}

TEST(Exit, SurvivesABackendThatFailsToEnd) {
  ChildResult result = RunChild({HAMMOCK_EXIT_CHILD, "throwing_backend", "return", "300000"}, 60);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.output.find("PrepareToExit of backend fails_to_end"), std::string::npos)
      << result.output.substr(0, 2000);
  EXPECT_NE(result.output.find("PrepareToExit of backend raises_to_end: the device is gone"),
            std::string::npos)
      << result.output.substr(0, 2000);
}

TEST(Exit, IsCleanAfterTheLibraryWasClosed) {
  EXPECT_TRUE(Succeeded(RunChild({HAMMOCK_UNLOAD_CHILD, HAMMOCK_UNLOAD_MODULE}, 60)));
}

}  // namespace
}  // namespace hammock
