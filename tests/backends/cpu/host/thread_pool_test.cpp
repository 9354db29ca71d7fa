#include "backends/cpu/host/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/process_exit.h"
#include "hammock/config.h"
#include "support/sanitizers.h"

namespace hammock::cpu {
namespace {

ThreadPool& Pool() { return ThreadPool::Get(); }

/// Counts how often each index of [0, count) is visited.
class Visits {
 public:
  explicit Visits(int64_t count)
      : visits_(std::make_unique<std::atomic<int>[]>(count)), count_(count) {}
  void Add(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) visits_[i].fetch_add(1, std::memory_order_relaxed);
  }
  bool EachIs(int wanted) const {
    for (int64_t i = 0; i < count_; ++i) {
      if (visits_[i].load() != wanted) return false;
    }
    return true;
  }

 private:
  std::unique_ptr<std::atomic<int>[]> visits_;
  int64_t count_;
};

/// How a program that runs `f` in a child process ends: its exit status, or -1.
template <class F>
int InChild(F f) {
  pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ThreadPool, VisitsEveryIndexOnceForAllSizesAndThreads) {
  for (const char* threads : {"1", "2", "3", "8"}) {
    config::Override some("cpu.threads", threads);
    for (int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (int64_t grain : {0, 1, 3, 16, 5000}) {
        Visits visits(count);
        Pool().ParallelFor(count, grain, [&](int64_t begin, int64_t end, int) {
          EXPECT_LT(begin, end);
          EXPECT_TRUE(grain < 1 || begin % grain == 0);
          visits.Add(begin, end);
        });
        EXPECT_TRUE(visits.EachIs(1)) << count << " by " << grain << " on " << threads;
      }
    }
  }
}

TEST(ThreadPool, ChunksAreTheSameForAnyNumberOfThreads) {
  for (const char* threads : {"1", "2", "5"}) {
    config::Override some("cpu.threads", threads);
    Visits visits(100);
    Pool().ForEachChunk(100, [&](int64_t chunk, int) { visits.Add(chunk, chunk + 1); });
    EXPECT_TRUE(visits.EachIs(1));
  }
}

TEST(ThreadPool, WorkersAreNumberedBelowTheLimitAndDifferAtOneTime) {
  config::Override four("cpu.threads", "4");
  for (int limit : {1, 2, 3, ThreadPool::kAnyNumber}) {
    std::atomic<bool> busy[4] = {};
    std::atomic<int> wrong{0};
    for (int turn = 0; turn < 200; ++turn) {
      Pool().ForEachChunk(
          32,
          [&](int64_t, int worker) {
            if (worker < 0 || worker >= std::min(limit, 4) || busy[worker].exchange(true)) {
              ++wrong;
              return;
            }
            busy[worker] = false;
          },
          limit);
    }
    EXPECT_EQ(wrong, 0) << limit;
  }
}

TEST(ThreadPool, SeveralThreadsTakePart) {
  config::Override two("cpu.threads", "2");
  // Both chunks wait for each other, so only two threads can end this.
  std::atomic<int> arrived{0};
  Pool().ForEachChunk(2, [&](int64_t, int) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
  // And again after the workers went to sleep.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  arrived = 0;
  Pool().ForEachChunk(2, [&](int64_t, int) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, AThreadBeginsWithTheSameShareEveryTime) {
  config::Override two("cpu.threads", "2");
  for (int turn = 0; turn < 50; ++turn) {
    // Threads wait for each other in the first chunk that they have.
    std::atomic<int> arrived{0};
    int64_t first[2] = {-1, -1};
    Pool().ForEachChunk(8, [&](int64_t chunk, int worker) {
      if (first[worker] >= 0) return;
      first[worker] = chunk;
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(first[0], 0);
    EXPECT_EQ(first[1], 4);
  }
}

TEST(ThreadPool, OneThreadRunsAllInOrderOnTheCaller) {
  config::Override one("cpu.threads", "1");
  std::vector<int64_t> order;
  std::set<std::thread::id> threads;
  Pool().ForEachChunk(10, [&](int64_t chunk, int worker) {
    EXPECT_EQ(worker, 0);
    order.push_back(chunk);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(threads, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(ThreadPool, ZeroMeansTheCoresOfTheProcess) {
  config::Override all("cpu.threads", "0");
  EXPECT_GE(ThreadPool::threads(), 1);
  EXPECT_LE(ThreadPool::threads(), static_cast<int>(std::thread::hardware_concurrency()));
  config::Override five("cpu.threads", "5");
  EXPECT_EQ(ThreadPool::threads(), 5);
}

TEST(ThreadPool, MoreThreadsThanBeforeTakeEffect) {
  config::Override two("cpu.threads", "2");
  Pool().ForEachChunk(4, [](int64_t, int) {});
  config::Override six("cpu.threads", "6");
  std::atomic<int> arrived{0};
  Pool().ForEachChunk(6, [&](int64_t, int) {
    ++arrived;
    while (arrived < 6) std::this_thread::yield();
  });
  EXPECT_GE(Pool().started(), 5);
}

TEST(ThreadPool, RegionsNest) {
  config::Override three("cpu.threads", "3");
  Visits visits(8 * 8 * 8);
  Pool().ForEachChunk(8, [&](int64_t i, int) {
    Pool().ForEachChunk(8, [&](int64_t j, int) {
      Pool().ParallelFor(8, 1, [&](int64_t begin, int64_t end, int) {
        visits.Add((i * 8 + j) * 8 + begin, (i * 8 + j) * 8 + end);
      });
    });
  });
  EXPECT_TRUE(visits.EachIs(1));
}

TEST(ThreadPool, MoreRegionsThanItCanShowStillRun) {
  config::Override two("cpu.threads", "2");
  std::atomic<int> bottom{0};
  auto nest = [&](auto& self, int depth) -> void {
    if (depth == 0) {
      ++bottom;
      return;
    }
    Pool().ForEachChunk(2, [&](int64_t chunk, int) {
      if (chunk == 0) self(self, depth - 1);
    });
  };
  nest(nest, 100);
  EXPECT_EQ(bottom, 1);
}

TEST(ThreadPool, ManyThreadsUseItAtOnce) {
  config::Override three("cpu.threads", "3");
  std::vector<std::thread> users;
  std::atomic<int64_t> sum{0};
  for (int user = 0; user < 6; ++user) {
    users.emplace_back([&] {
      for (int turn = 0; turn < 300; ++turn) {
        std::atomic<int64_t> part{0};
        Pool().ParallelFor(50, 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) part += i;
        });
        sum += part;
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(sum, 6 * 300 * (49 * 50 / 2));
}

TEST(ThreadPool, WhatChunksWroteIsSeenByTheCaller) {
  config::Override two("cpu.threads", "2");
  std::vector<int64_t> values(64);  // plain memory: a race here is what the sanitizer looks for
  for (int64_t turn = 0; turn < 2000; ++turn) {
    Pool().ForEachChunk(64, [&](int64_t i, int) { values[i] += i + turn; });
    int64_t sum = 0;
    for (int64_t& value : values) sum += value, value = 0;
    ASSERT_EQ(sum, 63 * 32 + 64 * turn);
  }
}

TEST(ThreadPool, TheLowestChunksExceptionReachesTheCaller) {
  for (const char* threads : {"1", "2", "4"}) {
    config::Override some("cpu.threads", threads);
    for (int turn = 0; turn < 50; ++turn) {
      try {
        Pool().ForEachChunk(40, [&](int64_t chunk, int) {
          if (chunk >= 7) throw std::runtime_error(std::to_string(chunk));
        });
        FAIL() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "7");
      }
    }
    Visits visits(10);  // the pool goes on as before
    Pool().ForEachChunk(10, [&](int64_t i, int) { visits.Add(i, i + 1); });
    EXPECT_TRUE(visits.EachIs(1));
  }
}

TEST(ThreadPool, NestedExceptionsPassThrough) {
  config::Override two("cpu.threads", "2");
  EXPECT_THROW(Pool().ForEachChunk(4,
                                   [&](int64_t, int) {
                                     Pool().ForEachChunk(
                                         4, [](int64_t, int) { throw std::logic_error("inner"); });
                                   }),
               std::logic_error);
}

TEST(ThreadPool, SlowChunksAreWaitedFor) {
  config::Override two("cpu.threads", "2");
  for (int turn = 0; turn < 20; ++turn) {
    std::atomic<int> arrived{0};
    std::atomic<bool> done{false};
    Pool().ForEachChunk(2, [&](int64_t, int worker) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      if (worker == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the caller falls asleep
      done = true;
    });
    ASSERT_TRUE(done);
  }
}

TEST(ThreadPool, CallerDoesNotWaitForWorkersThatHaveNotBegun) {
  config::Override two("cpu.threads", "2");
  // Keep the only worker busy; another region must end without it.
  std::atomic<bool> release{false};
  std::atomic<int> arrived{0};
  std::thread other([&] {
    Pool().ForEachChunk(2, [&](int64_t, int) {
      ++arrived;
      while (!release) std::this_thread::yield();
    });
  });
  while (arrived < 2) std::this_thread::yield();
  const bool is_only_worker = Pool().started() == 1;
  if (is_only_worker) {
    Visits visits(100);
    Pool().ForEachChunk(100, [&](int64_t i, int) { visits.Add(i, i + 1); });
    EXPECT_TRUE(visits.EachIs(1));
  }
  release = true;
  other.join();
  if (!is_only_worker) GTEST_SKIP() << "other tests of this process have started more workers";
}

TEST(ThreadPool, StartsNoThreadBeforeItIsNeeded) {
  SKIP_IF_FORKS_CANNOT_START_THREADS();
  // A child begins without threads, as a new process does.
  EXPECT_EQ(InChild([] {
              if (Pool().started() != 0) return 1;
              config::Override two("cpu.threads", "2");
              Pool().ForEachChunk(1, [](int64_t, int) {});
              if (Pool().started() != 0) return 2;
              Pool().ForEachChunk(2, [](int64_t, int) {});
              return Pool().started() == 1 ? 0 : 3;
            }),
            0);
}

TEST(ThreadPool, WorksInTheChildOfAFork) {
  SKIP_IF_FORKS_CANNOT_START_THREADS();
  config::Override two("cpu.threads", "2");
  Pool().ForEachChunk(8, [](int64_t, int) {});
  auto both_arrive = [] {
    std::atomic<int> arrived{0};
    Pool().ForEachChunk(2, [&](int64_t, int) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    return arrived == 2 ? 0 : 1;
  };
  EXPECT_EQ(InChild(both_arrive), 0);
  EXPECT_EQ(InChild([&] { return InChild(both_arrive); }), 0);
  EXPECT_EQ(both_arrive(), 0);
}

TEST(ThreadPool, WorksInAChildForkedWhileOthersUseIt) {
  SKIP_IF_FORKS_CANNOT_START_THREADS();
  config::Override two("cpu.threads", "2");
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) Pool().ForEachChunk(16, [](int64_t, int) {});
  });
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(InChild([] {
                std::atomic<int> count{0};
                Pool().ForEachChunk(16, [&](int64_t, int) { ++count; });
                return count == 16 ? 0 : 1;
              }),
              0);
  }
  stop = true;
  other.join();
}

TEST(ThreadPool, WorkersLeaveWhereMoreCallersCome) {
  config::Override two("cpu.threads", "2");
  std::atomic<int> by_worker{0};
  std::atomic<bool> crowded{false}, done{false};
  std::thread other([&] {
    while (by_worker == 0 && !done) std::this_thread::yield();
    ThreadPool::Caller caller;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a chunk is under way
    crowded = true;
    while (!done) std::this_thread::yield();
  });
  std::atomic<int> while_crowded{0};
  Pool().ForEachChunk(300, [&](int64_t chunk, int worker) {
    by_worker += worker;
    if (crowded) while_crowded += worker;
    // The last chunk of the caller's share waits until the worker has come and gone.
    while (chunk == 149 && !crowded) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  });
  done = true;
  other.join();
  EXPECT_GT(by_worker, 0);
  EXPECT_EQ(while_crowded, 0);
}

TEST(ThreadPool, ACancelledRegionStops) {
  for (const char* threads : {"1", "2"}) {
    config::Override some("cpu.threads", threads);
    std::atomic<bool> cancel{false};
    std::atomic<int> ran{0};
    ThreadPool::Cancellable cancellable(&cancel);
    auto run = [&] {
      Pool().ForEachChunk(100000, [&](int64_t, int) {
        if (++ran == 10) cancel = true;
      });
    };
    EXPECT_THROW(run(), process_exit::Cancelled);
    EXPECT_LT(ran, 100);
    ThreadPool::Cancellable not_here(nullptr);
    Visits visits(100);
    Pool().ForEachChunk(100, [&](int64_t chunk, int) { visits.Add(chunk, chunk + 1); });
    EXPECT_TRUE(visits.EachIs(1));
  }
}

}  // namespace
}  // namespace hammock::cpu
