// Programs that just return from main neither hang nor crash; forks give errors or a fresh runtime.

#include <gtest/gtest.h>

#include "runtime/child.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class Process : public ::testing::TestWithParam<const char*> {};

TEST_P(Process, EndsByItself) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(Succeeded(RunChild({HAMMOCK_PROCESS_CHILD, GetParam()}, 60)));
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Process,
                         ::testing::Values("in_flight", "pending", "global_in_flight",
                                           "detached_thread", "waiting_thread", "exit_in_a_thread",
                                           "unseen_error", "closures", "threads_that_ended",
                                           "at_exit", "at_exit_before", "no_backends"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Forks, Process,
                         ::testing::Values("fork_after_use", "fork_before_use",
                                           "fork_after_recording", "fork_in_a_grandchild"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hammock
