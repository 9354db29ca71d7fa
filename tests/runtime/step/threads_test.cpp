// Threads: tracing, stepping and reading on the same device and on several, tensors handed from
// thread to thread, backends that come and go. Run under TSan by `make tsan`.

#include <gtest/gtest.h>

#include <barrier>
#include <latch>
#include <mutex>
#include <thread>

#include "runtime/runtime.h"
#include "support/host_backend.h"
#include "support/in_parallel.h"

namespace hammock {
namespace {

using namespace hammock::testing;

constexpr int kThreads = 8;

class Threads : public Runtime {};

// Upstream's crash: 4 threads, 300 rounds, a step in every tenth.
TEST_F(Threads, TraceStepAndReadOnOneDevice) {
  InParallel(kThreads, [](int thread) {
    for (int round = 0; round < 100; ++round) {
      float k = static_cast<float>(thread * 1000 + round);
      Tensor t = full({8}, k, f32, "reference");
      Tensor u = (t + 1.0f) * 2.0f;
      if (round % 10 == 0) mark_step();
      ASSERT_EQ(u.to_vector<float>(), std::vector<float>(8, (k + 1) * 2));
    }
  });
}

TEST_F(Threads, TraceStepAndReadOnTwoDevices) {
  InParallel(kThreads, [](int thread) {
    const char* device = thread % 2 ? "null" : "reference";
    Tensor w = ones({16}, f32, device);
    for (int round = 0; round < 60; ++round) {
      Tensor x = full({16}, 1.0f, f32, device);
      w = w + x * 0.5f;
      Tensor part = w.slice(0, 2, 6);
      part.mul_(1.0f);
      mark_step();
      if (round % 7 == 0) w.host();
    }
    std::vector<float> expected(16, thread % 2 ? 0.0f : 31.0f);
    ASSERT_EQ(w.to_vector<float>(), expected);
  });
}

TEST_F(Threads, BigStepsOfManyThreadsShareTheQueue) {
  InParallel(kThreads, [](int thread) {
    Tensor sum = zeros({64, 512}, f32, "reference");
    for (int round = 0; round < 10; ++round) {
      sum = sum + static_cast<float>(thread);
      mark_step();
    }
    ASSERT_EQ(sum[63][511].item<float>(), 10.0f * static_cast<float>(thread));
  });
}

TEST_F(Threads, OnePendingValueIsComputedOnce) {
  for (int round = 0; round < 20; ++round) {
    Tensor x = OnDevice({1, 2, 3, 4});
    Tensor y = x.exp();
    int64_t nodes = NodesRun();
    InParallel(kThreads, [&](int) {
      ASSERT_TRUE(TensorNear(
          "y", y, std::vector<float>{2.7182817f, 7.389056f, 20.085537f, 54.59815f}, {4}));
    });
    EXPECT_EQ(NodesRun(), nodes + 1);
  }
}

// A step that needs another thread's claimed result must not run before it, nor keep it from
// running.
TEST_F(Threads, ReadersOfAChainNeverWaitForEachOther) {
  for (int round = 0; round < 100; ++round) {
    std::vector<Tensor> chain{OnDevice({1})};
    for (int i = 0; i < kThreads; ++i) chain.push_back(chain.back() + 1.0f);
    InParallel(kThreads, [&](int i) {
      Tensor mine = chain[static_cast<size_t>(i) + 1];
      ASSERT_EQ(mine.item<float>(), static_cast<float>(i + 2));
    });
  }
}

TEST_F(Threads, OneHostLeafIsUploadedByWhoeverComesFirst) {
  for (int round = 0; round < 50; ++round) {
    Tensor leaf = OnHost({1, 2, 3});
    InParallel(kThreads, [&](int i) {
      Tensor mine = leaf + static_cast<float>(i);
      ASSERT_EQ(mine.to_vector<float>()[2], 3.0f + static_cast<float>(i));
      ASSERT_EQ(leaf.to_vector<float>(), (std::vector<float>{1, 2, 3}));
    });
  }
}

TEST_F(Threads, TensorsAreHandedOn) {
  constexpr int kRounds = 40;
  std::vector<Tensor> mail[2] = {std::vector<Tensor>(kThreads), std::vector<Tensor>(kThreads)};
  for (Tensor& each : mail[0]) each = OnDevice({0});
  std::barrier round_end(kThreads);
  InParallel(kThreads, [&](int i) {
    for (int round = 0; round < kRounds; ++round) {
      Tensor mine = std::move(mail[round % 2][i]);
      mine = mine + 1.0f;
      if (round % 5 == i % 5) mark_step();
      if (round % 11 == i) mine.host();
      mail[(round + 1) % 2][static_cast<size_t>(i + 1) % kThreads] = std::move(mine);
      round_end.arrive_and_wait();
    }
  });
  for (const Tensor& each : mail[kRounds % 2]) EXPECT_EQ(each.item<float>(), kRounds);
}

TEST_F(Threads, MarkStepLeavesOtherThreadsAlone) {
  Tensor mine = OnDevice({1}) + 1.0f;
  Tensor theirs;
  std::thread([&] {
    theirs = OnDevice({2}) + 1.0f;
    mark_step();
  }).join();
  EXPECT_TRUE(mine.is_pending());
  EXPECT_FALSE(theirs.is_pending());
  Tensor later;
  std::thread([&] { later = theirs * 2.0f; }).join();
  mark_step();
  EXPECT_FALSE(mine.is_pending());
  EXPECT_TRUE(later.is_pending()) << "traced by a thread that has ended";
  Device reference("reference");
  Lazy().SyncAllThreads(&reference, true);
  EXPECT_FALSE(later.is_pending());
  EXPECT_EQ(later.item<float>(), 6.0f);
}

TEST_F(Threads, KeysDoNotDependOnOtherThreads) {
  auto step_of = [](float value) {
    Tensor x = full({3}, value, f32, "reference");
    Tensor y = x * 2.0f;
    mark_step();
    return y;
  };
  step_of(1);
  int64_t compiles = Compiles();
  InParallel(kThreads, [&](int i) {
    for (int round = 0; round < 20; ++round) step_of(static_cast<float>(i * round));
  });
  EXPECT_EQ(Compiles(), compiles);
}

TEST_F(Threads, SyncAllThreadsComputesEverybodys) {
  std::barrier phase(kThreads + 1);
  std::vector<Tensor> results(kThreads);
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      results[i] = OnDevice({static_cast<float>(i)}) * 2.0f;
      phase.arrive_and_wait();
      phase.arrive_and_wait();
    });
  }
  phase.arrive_and_wait();
  Device reference("reference");
  Lazy().SyncAllThreads(&reference, true);
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_FALSE(results[i].is_pending());
    EXPECT_EQ(results[i].item<float>(), static_cast<float>(2 * i));
  }
  phase.arrive_and_wait();
}

TEST_F(Threads, SyncAllThreadsWhileOthersTrace) {
  std::atomic<bool> stop{false};
  std::jthread syncer([&] {
    while (!stop) Lazy().SyncAllThreads(nullptr);
  });
  InParallel(4, [](int i) {
    Tensor x = OnDevice({static_cast<float>(i)});
    for (int round = 0; round < 50; ++round) {
      x = x + 1.0f;
      Tensor v = x.view({1, 1});
      v.add_(1.0f);
    }
    ASSERT_EQ(x.item<float>(), static_cast<float>(i + 100));
  });
  stop = true;
}

TEST_F(Threads, WritesToOneGroupAreSerialised) {
  constexpr int kRounds = 50;
  Tensor base = OnDevice({0, 0, 0, 0, 0, 0, 0, 0});
  std::vector<Tensor> views;
  for (int i = 0; i < kThreads; ++i) views.push_back(base.slice(0, i, i + 1));
  InParallel(kThreads, [&](int i) {
    for (int round = 0; round < kRounds; ++round) {
      views[i].add_(1.0f);
      if (round % 9 == 0) mark_step();
    }
  });
  EXPECT_TENSOR_EQ(base, std::vector<float>(kThreads, kRounds), {kThreads});
}

TEST_F(Threads, ErrorsGoToThoseWhoReadThem) {
  InParallel(kThreads, [](int i) {
    for (int round = 0; round < 20; ++round) {
      Tensor x = OnHost({0, 1, 2, 3});
      Tensor bad = gather(x, 0, Indices({9}));
      Tensor good = x + static_cast<float>(i);
      ASSERT_TRUE(RaisesCode(
          "bad", [&] { bad.host(); }, ErrorCode::kIndexOutOfRange, "gather"));
      ASSERT_EQ(good.to_vector<float>()[3], 3.0f + static_cast<float>(i));
    }
  });
}

TEST_F(Threads, RandomStreamsTakeDistinctOffsets) {
  manual_seed(3);
  std::mutex mutex;
  std::vector<float> all;
  InParallel(kThreads, [&](int) {
    for (int round = 0; round < 10; ++round) {
      auto values = rand({4}, f32, "reference").to_vector<float>();
      std::lock_guard lock(mutex);
      all.insert(all.end(), values.begin(), values.end());
    }
  });
  std::sort(all.begin(), all.end());
  std::vector<float> serial;
  manual_seed(3);
  for (int i = 0; i < kThreads * 10; ++i) {
    auto values = rand({4}, f32, "reference").to_vector<float>();
    serial.insert(serial.end(), values.begin(), values.end());
  }
  std::sort(serial.begin(), serial.end());
  EXPECT_EQ(all, serial);
}

TEST_F(Threads, BackendsComeAndGo) {
  std::vector<HostBackend*> backends;
  for (int i = 0; i < 4; ++i) backends.push_back(new HostBackend("coming" + std::to_string(i)));
  InParallel(kThreads, [&](int i) {
    if (i < 4) {
      std::string name = "coming" + std::to_string(i);
      for (int round = 0; round < 20; ++round) {
        Registered registered(*backends[i]);
        Tensor x = full({4}, static_cast<float>(round), f32, name);
        ASSERT_EQ((x + 1.0f)[0].item<float>(), static_cast<float>(round + 1));
      }
    } else {
      for (int round = 0; round < 200; ++round) {
        for (const Device& device : Devices()) device.to_string();
        lazy::BackendNames();
        ASSERT_EQ((OnHost({1}) + 1.0f).item<float>(), 2.0f);
      }
    }
  });
}

TEST_F(Threads, CapturedGraphsAreCalledByAll) {
  CompiledGraph graph = extract_compiled_graph(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2.0f + 1.0f}; },
      {OnDevice({1, 2})});
  InParallel(kThreads, [&](int i) {
    for (int round = 0; round < 30; ++round) {
      float k = static_cast<float>(i + round);
      auto results = graph({full({2}, k, f32, "reference")});
      ASSERT_EQ(results[0].to_vector<float>(), std::vector<float>(2, 2 * k + 1));
    }
  });
}

TEST_F(Threads, LookingAtTensorsOfOthersIsSafe) {
  std::atomic<bool> stop{false};
  std::jthread looker([&] {
    while (!stop) {
      EXPECT_LT(Lazy().GetLiveTensors().size(), 1000000u);
      Lazy().GetCacheStats();
      Lazy().GetMisses();
      metrics::Report();
    }
  });
  InParallel(4, [](int) {
    for (int round = 0; round < 50; ++round) {
      Tensor x = OnHost({1, 2});
      Tensor y = x + 1.0f;
      if (round % 3 == 0) mark_step();
    }
  });
  stop = true;
}

}  // namespace
}  // namespace hammock
