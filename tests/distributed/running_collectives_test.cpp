#include "backends/cpu/running_collectives.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>

namespace hammock::cpu {
namespace {

using Range = RunningCollectives::Range;

struct Memory {
  char bytes[64] = {};
  Range Part(int begin, int end) const { return {bytes + begin, bytes + end}; }
};

TEST(RunningCollectives, LetsCommandsRunThatUseOtherMemory) {
  Memory memory;
  std::promise<void> end;
  std::atomic<bool> ended = false;
  RunningCollectives collectives;
  collectives.Start(0, {memory.Part(0, 8)}, {memory.Part(8, 16)}, [&] {
    end.get_future().wait();
    ended = true;
  });
  // Reading what it reads, and memory beside its own.
  const Range reads[] = {memory.Part(0, 8), memory.Part(16, 24)}, writes[] = {memory.Part(24, 32)};
  collectives.AwaitBefore(reads, writes);
  EXPECT_TRUE(collectives.any());
  EXPECT_FALSE(ended);
  end.set_value();
  collectives.AwaitAll();
  EXPECT_TRUE(ended);
  EXPECT_EQ(collectives.times().size(), 1u);
}

TEST(RunningCollectives, HoldsBackCommandsThatUseItsMemory) {
  Memory memory;
  for (int hazard = 0; hazard < 3; ++hazard) {
    std::atomic<bool> ended = false;
    RunningCollectives collectives;
    collectives.Start(0, {memory.Part(0, 8)}, {memory.Part(8, 16)}, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
    });
    const Range part[] = {hazard == 0 ? memory.Part(4, 5) : memory.Part(15, 20)};
    if (hazard == 1) {
      collectives.AwaitBefore(part, {});  // reads what it writes
    } else {
      collectives.AwaitBefore({}, part);  // writes what it reads, or writes
    }
    EXPECT_TRUE(ended) << hazard;
    EXPECT_FALSE(collectives.any());
  }
}

TEST(RunningCollectives, RunsThemInOrder) {
  Memory memory;
  std::vector<int> order;
  RunningCollectives collectives;
  for (int i = 0; i < 8; ++i) {
    collectives.Start(static_cast<size_t>(i), {}, {memory.Part(i, i + 1)},
                      [&order, i] { order.push_back(i); });
  }
  const Range third[] = {memory.Part(2, 3)};
  collectives.AwaitBefore(third, {});
  collectives.AwaitAll();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(RunningCollectives, RaisesErrorsWhereTheyAreAwaitedAndSkipsTheRest) {
  Memory memory;
  bool ran = false;
  RunningCollectives collectives;
  collectives.Start(0, {}, {memory.Part(0, 1)}, [] { throw std::runtime_error("gone"); });
  collectives.Start(1, {}, {memory.Part(1, 2)}, [&] { ran = true; });
  EXPECT_THROW(collectives.AwaitAll(), std::runtime_error);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace hammock::cpu
