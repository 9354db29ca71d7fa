#include "base/work_queue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/fork.h"
#include "base/log.h"
#include "hammock/error.h"
#include "support/sanitizers.h"

namespace hammock {
namespace {

using std::chrono::milliseconds;

/// A task that says when it started and waits until it is let go.
struct Gate {
  WorkQueue::Task Task() {
    return [this] {
      started.set_value();
      open.get_future().wait();
    };
  }

  std::promise<void> started;
  std::promise<void> open;
};

TEST(WorkQueue, RunsTasksInOrderOnOneOtherThread) {
  WorkQueue queue("test", 4);
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) {
    queue.Push([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  queue.Drain();
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
  EXPECT_NE(threads[0], std::this_thread::get_id());
  EXPECT_EQ(std::count(threads.begin(), threads.end(), threads[0]), 100);
}

TEST(PatientWorkQueue, LeavesTasksToThoseWhoWait) {
  WorkQueue queue("test", 4, std::chrono::minutes(1));
  std::vector<std::thread::id> threads;
  bool third = false;
  for (int i = 0; i < 4; ++i) {
    queue.Push([&, i] {
      threads.push_back(std::this_thread::get_id());
      third = i == 2;
    });
  }
  queue.HelpUntil([&] { return third; });
  EXPECT_EQ(threads.size(), 3);
  EXPECT_EQ(queue.size(), 1);
  for (int i = 0; i < 4; ++i) {  // the last one finds a full queue
    queue.Push([&] { threads.push_back(std::this_thread::get_id()); });
  }
  EXPECT_EQ(threads.size(), 4);
  queue.Drain();
  EXPECT_EQ(threads, std::vector<std::thread::id>(8, std::this_thread::get_id()));
}

TEST(PatientWorkQueue, RunsWhatNobodyWaitsFor) {
  WorkQueue queue("test", 100, milliseconds(1));
  for (int round = 0; round < 3; ++round) {
    std::vector<int> order;
    std::promise<std::thread::id> ran;
    for (int i = 0; i < 50; ++i) queue.Push([&, i] { order.push_back(i); });
    queue.Push([&] { ran.set_value(std::this_thread::get_id()); });
    EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
    std::vector<int> expected(50);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
    std::this_thread::sleep_for(milliseconds(5));  // it falls asleep
  }
}

TEST(PatientWorkQueue, LosesNothingWhenManyHelpAndStop) {
  std::atomic<int> done{0};
  for (int round = 0; round < 50; ++round) {
    done = 0;
    WorkQueue queue("test", 8, std::chrono::microseconds(50));
    std::vector<std::thread> helpers;
    for (int t = 0; t < 4; ++t) {
      helpers.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) {
          queue.Push([&] { ++done; });
          if ((i + t) % 7 == 0) queue.Drain();
          if ((i + t) % 5 == 0) queue.HelpUntil([&] { return done % 3 == 0; });
        }
      });
    }
    if (round % 2 == 0) queue.Stop();
    for (std::thread& helper : helpers) helper.join();
    queue.Stop();
    EXPECT_EQ(done, 400);
  }
}

TEST(WorkQueue, PushWaitsWhileFull) {
  WorkQueue queue("test", 2);
  Gate gate;
  queue.Push(gate.Task());
  gate.started.get_future().wait();
  queue.Push([] {});
  queue.Push([] {});
  EXPECT_EQ(queue.size(), 3u);
  auto third = std::async(std::launch::async, [&] { queue.Push([] {}); });
  EXPECT_EQ(third.wait_for(milliseconds(30)), std::future_status::timeout);
  gate.open.set_value();
  third.get();
  queue.Drain();
  EXPECT_EQ(queue.size(), 0u);
}

TEST(WorkQueue, LargerCapacityLetsPushGoOn) {
  WorkQueue queue("test", 1);
  Gate gate;
  queue.Push(gate.Task());
  gate.started.get_future().wait();
  queue.Push([] {});
  auto second = std::async(std::launch::async, [&] { queue.Push([] {}); });
  EXPECT_EQ(second.wait_for(milliseconds(10)), std::future_status::timeout);
  queue.SetCapacity(2);
  second.get();
  gate.open.set_value();
  queue.Drain();
}

TEST(WorkQueue, DrainWaitsForTheRunningTaskAndWhatItHolds) {
  WorkQueue queue("test", 2);
  std::atomic<size_t> size_at_death{0};
  // The destructor asks the queue, which must not be locked then.
  std::shared_ptr<void> held(nullptr, [&](void*) {
    std::this_thread::sleep_for(milliseconds(20));
    size_at_death = queue.size();
  });
  queue.Push([held = std::move(held)] {});
  queue.Drain();
  EXPECT_EQ(size_at_death, 1u) << "the task counts as running until what it holds is gone";
}

TEST(WorkQueue, DrainOfAnUnusedQueueReturns) {
  WorkQueue queue("test", 1);
  queue.Drain();
  queue.Stop();
}

TEST(WorkQueue, ATaskMayPushDrainAndStop) {
  std::vector<int> order;
  {
    WorkQueue queue("test", 1);
    queue.Push([&] {
      EXPECT_TRUE(queue.InTask());
      for (int i = 1; i <= 5; ++i) queue.Push([&order, i] { order.push_back(i); });
      queue.Drain();
      queue.Stop();
      order.push_back(0);
    });
    EXPECT_FALSE(queue.InTask());
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(WorkQueue, AnEscapedExceptionIsLoggedAndTheNextTaskRuns) {
  LogCapture capture;
  WorkQueue queue("steps", 4);
  bool ran = false;
  queue.Push([] { throw std::runtime_error("oops"); });
  queue.Push([] { throw 1; });
  queue.Push([&] { ran = true; });
  queue.Drain();
  EXPECT_TRUE(ran);
  EXPECT_EQ(
      capture.text(),
      "error: steps: a task failed: oops\nerror: steps: a task failed with an unknown error\n");
}

TEST(WorkQueue, StopRunsWhatWaitsAndLaterTasksRunOnTheCaller) {
  WorkQueue queue("test", 10);
  int sum = 0;
  for (int i = 0; i < 10; ++i) queue.Push([&] { ++sum; });
  queue.Stop();
  EXPECT_EQ(sum, 10);
  std::thread::id where;
  queue.Push([&] {
    queue.Push([&] { ++sum; });
    where = std::this_thread::get_id();
  });
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_EQ(sum, 11) << "what such a task pushes is run too";
  queue.Drain();
  queue.Stop();
}

TEST(WorkQueue, APushThatWaitsWhenTheQueueStopsKeepsItsTurn) {
  WorkQueue queue("test", 1);
  std::vector<int> order;
  Gate gate;
  queue.Push([&, wait = gate.Task()] {
    wait();
    std::this_thread::sleep_for(milliseconds(10));
    order.push_back(0);
  });
  gate.started.get_future().wait();
  queue.Push([&] { order.push_back(1); });
  auto waiting = std::async(std::launch::async, [&] { queue.Push([&] { order.push_back(2); }); });
  std::this_thread::sleep_for(milliseconds(10));
  auto stop = std::async(std::launch::async, [&] { queue.Stop(); });
  std::this_thread::sleep_for(milliseconds(10));
  gate.open.set_value();
  waiting.get();
  stop.get();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(WorkQueue, TakesTasksFromManyThreadsWhileOthersDrainAndStop) {
  WorkQueue queue("test", 3);
  int64_t count = 0;  // only tasks touch it, one at a time
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        queue.Push([&] { ++count; });
        if (i % 100 == 0) queue.Drain();
        if (t == 0 && i == 400) queue.Stop();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  queue.Stop();
  EXPECT_EQ(count, 2000);
}

/// Runs `body` in the child of a fork; true if it returned true.
template <class Body>
bool TrueInChild(Body body) {
  pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(WorkQueue, ChildOfAForkGetsAnErrorInsteadOfHanging) {
  auto queue = std::make_unique<WorkQueue>("steps", 2);
  queue->Push([] {});
  queue->Drain();
  EXPECT_TRUE(TrueInChild([&] {
    int errors = 0;
    try {
      queue->Push([] {});
    } catch (const DeviceError& error) {
      errors += error.code() == ErrorCode::kForked;
    }
    try {
      queue->Drain();
    } catch (const DeviceError& error) {
      errors += error.code() == ErrorCode::kForked;
    }
    queue->Stop();
    queue.reset();
    return errors == 2;
  }));
  bool ran = false;
  queue->Push([&] { ran = true; });
  queue->Drain();
  EXPECT_TRUE(ran) << "the parent goes on";
}

TEST(WorkQueue, ChildOfAForkMayStartAQueueThatWasNotStarted) {
  SKIP_IF_FORKS_CANNOT_START_THREADS();
  WorkQueue queue("test", 2);
  EXPECT_TRUE(TrueInChild([&] {
    bool ran = false;
    queue.Push([&] { ran = true; });
    queue.Drain();
    queue.Stop();
    return ran;
  }));
}

TEST(WorkQueue, ATaskMayExitTheProcess) {
  auto exit_in_task = [] {
    static WorkQueue queue("test", 2);
    queue.Push([] { exit(7); });
    while (true) std::this_thread::sleep_for(milliseconds(1));
  };
#ifdef HAMMOCK_EMULATED  // the system cannot start the test program again, only fork it
  GTEST_FLAG_SET(death_test_style, "fast");
#else
  GTEST_FLAG_SET(death_test_style, "threadsafe");
#endif
  EXPECT_EXIT(exit_in_task(), ::testing::ExitedWithCode(7), "");
}

/// Bytes of address space, of which every thread has a stack until it is joined or detached.
int64_t AddressSpace() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

TEST(WorkQueue, ATaskMayDestroyItsQueue) {
  const int64_t before = AddressSpace();
  constexpr int kQueues = 500;
  for (int i = 0; i < kQueues; ++i) {
    auto queue = std::make_shared<WorkQueue>("test", 2);
    const std::weak_ptr<WorkQueue> left = queue;
    Gate gate;
    queue->Push([own = queue, task = gate.Task()] { task(); });
    gate.started.get_future().wait();
    queue.reset();
    gate.open.set_value();
    while (!left.expired()) std::this_thread::yield();
  }
  EXPECT_LT(AddressSpace() - before, int64_t{kQueues} << 20) << "a megabyte for each thread";
}

TEST(ForkCount, GrowsInTheChildOnly) {
  uint64_t before = ForkCount();
  EXPECT_TRUE(TrueInChild([&] { return ForkCount() == before + 1; }));
  EXPECT_EQ(ForkCount(), before);
}

}  // namespace
}  // namespace hammock
