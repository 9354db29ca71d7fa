// Steps of different threads run at the same time, those of one thread in order; backends that run
// one computation at a time, ordered effects, memory limits, and graphs that several threads meet.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "hammock/config.h"
#include "hammock/custom_call.h"
#include "runtime/devices/memory_pressure.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"
#include "support/in_parallel.h"

namespace hammock {
namespace {

using namespace hammock::testing;
using namespace std::chrono_literals;

class Lanes : public Runtime {};

/// Waits until `count` threads have come, but not for ever; whether they have.
class Meeting {
 public:
  explicit Meeting(int count) : count_(count) {}
  bool Come() {
    ++here_;
    auto end = std::chrono::steady_clock::now() + 20s;
    while (here_ < count_) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  const int count_;
  std::atomic<int> here_{0};
};

class OnDevices : public Lanes, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(HostBackends, OnDevices, ::testing::Values("cpu", "reference"));

TEST_P(OnDevices, StepsOfThreadsRunAtTheSameTime) {
  constexpr int kThreads = 3;
  for (bool async : {false, true}) {
    Meeting meeting(kThreads);
    ScopedFault meet([&](FaultPoint at, std::string_view what) {
      if (at == FaultPoint::kExecute && what == "exp") {
        EXPECT_TRUE(meeting.Come()) << async;
      }
    });
    InParallel(kThreads, [&](int i) {
      Tensor x = full({100, 1000}, static_cast<float>(i), f32, GetParam());
      Tensor y = x.exp();
      if (async) mark_step();
      ASSERT_FLOAT_EQ(y[3][4].item<float>(), std::exp(static_cast<float>(i)));
    });
  }
}

TEST_P(OnDevices, AStepWaitsForWhatAnotherThreadComputes) {
  InParallel(2, [&](int) {
    for (int round = 0; round < 20; ++round) {
      Tensor x = full({300, 300}, 1.0f, f32, GetParam());
      Tensor y;
      std::jthread other([&] {
        y = x + 1.0f;
        mark_step();
      });
      other.join();
      Tensor z = y * 3.0f;
      mark_step();
      ASSERT_EQ(z[299][299].item<float>(), 6.0f);
    }
  });
}

TEST_P(OnDevices, StepsOfOneThreadRunInOrder) {
  std::mutex mutex;
  std::map<int, std::vector<float>> seen;  // by the thread that recorded them
  static std::atomic<int> number{0};
  std::string target = "lanes_test.order" + std::to_string(++number);
  RegisterCustomCall(target, [&](std::span<const HostTensor> in, std::string_view) {
    std::lock_guard lock(mutex);
    float value = in[0].values<float>()[0];
    seen[static_cast<int>(value) / 1000].push_back(value);
    return std::vector<HostTensor>{in[0]};
  });
  InParallel(3, [&](int thread) {
    for (int i = 0; i < 30; ++i) {
      Tensor x = full({200, 200}, static_cast<float>(thread * 1000 + i), f32, GetParam());
      Any results = CallOp("custom_call", {Any(AnyList{Any(x)}), Any(target), Any(""),
                                           Any(AnyList{Any("f32[200,200]")})});
      Tensor y = results.ToList().at(0).ToTensor();
      mark_step();
    }
  });
  wait_device_ops();
  size_t all = 0;
  for (const auto& [thread, values] : seen) {
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
    all += values.size();
  }
  EXPECT_EQ(all, 90u);
}

TEST_P(OnDevices, OrderedEffectsHaveOneOrderForAllThreads) {
  static std::atomic<int> number{0};
  std::string target = "lanes_test.effect" + std::to_string(++number);
  std::vector<float> seen;  // only calls touch it, one at a time
  RegisterCustomCall(target, [&](std::span<const HostTensor> in, std::string_view) {
    float value = in[0].values<float>()[0];
    std::this_thread::sleep_for(value == 0 ? 50ms : 0ms);
    seen.push_back(value);
    return std::vector<HostTensor>{in[0]};
  });
  std::vector<Tensor> results(4);
  for (int i = 0; i < 4; ++i) {
    std::thread([&, i] {
      Tensor x = full({2}, static_cast<float>(i), f32, GetParam());
      Any called = CallOp(
          "custom_call", {Any(AnyList{Any(x)}), Any(target), Any(""), Any(AnyList{Any("f32[2]")})});
      Tensor big = full({200, 200}, 1.0f, f32, GetParam()) + 1.0f;  // not run inline
      results[i] = called.ToList().at(0).ToTensor();
      mark_step();
    }).join();
  }
  wait_device_ops();
  EXPECT_EQ(seen, (std::vector<float>{0, 1, 2, 3}));
}

TEST_P(OnDevices, ABarrierWaitsForTheStepsOfAllThreads) {
  std::atomic<int> ran{0};
  ScopedFault slow([&](FaultPoint at, std::string_view what) {
    if (at != FaultPoint::kExecute || what != "exp") return;
    std::this_thread::sleep_for(50ms);
    ++ran;
  });
  std::vector<Tensor> results(4);
  for (Tensor& result : results) {
    std::thread([&] {
      result = full({200, 200}, 1.0f, f32, GetParam()).exp();
      mark_step();
    }).join();
  }
  wait_device_ops();
  EXPECT_EQ(ran, 4);
}

TEST_F(Lanes, ABackendRunsOneComputationAtATimeUnlessItSaysOtherwise) {
  HostBackend backend("one_at_a_time");
  std::atomic<int> running{0}, most{0};
  backend.before_execute = [&](const lazy::Computation&) {
    most = std::max(most.load(), ++running);
    std::this_thread::sleep_for(1ms);
    --running;
  };
  Registered registered(backend);
  InParallel(4, [&](int i) {
    for (int round = 0; round < 10; ++round) {
      Tensor x = full({200, 200}, static_cast<float>(i), f32, "one_at_a_time") + 1.0f;
      if (round % 2 == 0) mark_step();
      ASSERT_EQ(x[1][1].item<float>(), static_cast<float>(i + 1));
    }
  });
  EXPECT_EQ(most, 1);
}

// ---- Memory

/// A step with several values as large as `x`, of which nothing is left but a number.
float Heavy(const Tensor& x) {
  auto sum = [&] {
    Tensor y = matmul(x, x);
    return matmul(y, y).sum();
  };
  return sum().item<float>();
}

// A matmul of this size on `cpu` takes long enough for others to begin meanwhile.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr int64_t kHeavySize = 1024;
#else  // by plain loops, which are slower yet where the processor is emulated
constexpr int64_t kHeavySize = 256;
#endif

TEST_P(OnDevices, StepsThatDoNotFitTogetherRunOneAfterAnother) {
  const Device device(GetParam());
  const int64_t n = std::string(GetParam()) == "cpu" ? kHeavySize : 128;
  std::vector<Tensor> inputs;
  for (int i = 0; i < 4; ++i) {
    inputs.push_back(full({n, n}, 1.0f / static_cast<float>(n), f32, GetParam()) + 0.0f);
    sync_multi({inputs.back()});
    Heavy(inputs.back());
  }
  FreeMemory(device);
  // The least limit with which one runs.
  int64_t limit = GetMemoryInfo(device).in_use;
  for (bool fits = false; !fits; limit += n * n) {
    SetMemoryLimit(device, limit);
    try {
      Heavy(inputs[0]);
      fits = true;
    } catch (const OutOfMemory&) {
    }
  }
  // Where every value has memory of its own, a result may live until the next step has begun.
  if (std::string(GetParam()) == "reference") SetMemoryLimit(device, limit + 2 * n * n * 4);
  InParallel(4, [&](int i) {
    for (int round = 0; round < 5; ++round) {
      ASSERT_EQ(Heavy(inputs[i]), static_cast<float>(n));
    }
  });
  SetMemoryLimit(device, 0);
}

/// Runs several computations at once, in memory of its own or, where `total` is 0, of the host.
class MeasuredBackend : public HostBackend {
 public:
  using HostBackend::HostBackend;
  bool SupportsConcurrentExecution() const override { return true; }
  std::vector<lazy::ComputationPtr> Compile(
      std::vector<lazy::ComputationPtr> instances) const override {
    for (const auto& instance : instances) instance->run_bytes = run_bytes;
    return HostBackend::Compile(std::move(instances));
  }
  lazy::MemoryInfo GetMemoryInfo(const lazy::BackendDevice&) const override { return memory; }
  int64_t run_bytes = 0;
  lazy::MemoryInfo memory;
};

/// The most steps of four threads that run at once; waits for `expected` of them to do so.
int MostAtOnce(MeasuredBackend& backend, const std::string& name, int expected) {
  std::atomic<int> running{0}, most{0};
  backend.before_execute = [&](const lazy::Computation&) {
    const int now = ++running;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    auto end = std::chrono::steady_clock::now() + (most < expected ? 2s : 2ms);
    while (std::chrono::steady_clock::now() < end && (expected == 1 || most < expected)) {
      std::this_thread::sleep_for(1ms);
    }
    --running;
  };
  Registered registered(backend);
  InParallel(4, [&](int i) {
    for (int round = 0; round < 3; ++round) {
      Tensor x = full({3}, static_cast<float>(i), f32, name) + 1.0f;
      ASSERT_EQ(x[1].item<float>(), static_cast<float>(i + 1));
    }
  });
  return most;
}

struct AtOnce {
  int64_t run_bytes;
  int steps;
};

TEST_F(Lanes, WithoutALimitStepsFitIntoTheMemoryOfTheDevice) {
  for (auto [run_bytes, steps] : {AtOnce{600, 1}, {1500, 1}, {400, 2}, {200, 4}, {0, 4}}) {
    const std::string name = "measured" + std::to_string(run_bytes);
    MeasuredBackend backend(name);
    backend.run_bytes = run_bytes;
    backend.memory = {.in_use = 1000, .total = 2000};
    EXPECT_EQ(MostAtOnce(backend, name, steps), steps) << run_bytes;
  }
}

TEST_F(Lanes, OnTheHostStepsFitIntoWhatItHasAvailable) {
  constexpr int64_t kMegabyte = 1 << 20;
  struct HostMemory {
    explicit HostMemory(int64_t bytes) { SetHostMemoryForTesting(bytes); }
    ~HostMemory() { SetHostMemoryForTesting(std::nullopt); }
  };
  const HostMemory available(700 * kMegabyte);
  // The device has cached 300 MB. Alone a step may take more than there is.
  for (auto [megabytes, steps] : {AtOnce{600, 1}, {1500, 1}, {400, 2}, {200, 4}, {0, 4}}) {
    const std::string name = "hosted" + std::to_string(megabytes);
    MeasuredBackend backend(name);
    backend.run_bytes = megabytes * kMegabyte;
    backend.memory = {.in_use = 50 * kMegabyte, .reserved = 350 * kMegabyte};
    EXPECT_EQ(MostAtOnce(backend, name, steps), steps) << megabytes;
  }
  const HostMemory nothing(0);
  MeasuredBackend little("little");
  little.run_bytes = 10 * kMegabyte;
  EXPECT_EQ(MostAtOnce(little, "little", 4), 4) << "the host is not asked";
}

// ---- Compilation

TEST_F(Lanes, OneNewGraphIsCompiledOnce) {
  HostBackend backend("slow_to_compile");
  std::atomic<int> compiled{0};
  backend.before_compile = [&](const lazy::Computation&) {
    ++compiled;
    std::this_thread::sleep_for(100ms);
  };
  Registered registered(backend);
  InParallel(8, [&](int i) {
    Tensor x = full({3}, static_cast<float>(i), f32, "slow_to_compile");
    ASSERT_EQ((x * 2.0f + 1.0f)[2].item<float>(), static_cast<float>(2 * i + 1));
  });
  // The graph of the sum, and that of the element.
  int before = compiled;
  EXPECT_LE(before, 2);
  InParallel(8, [&](int i) {
    Tensor x = full({3}, static_cast<float>(i), f32, "slow_to_compile");
    ASSERT_EQ((x * 2.0f + 1.0f)[2].item<float>(), static_cast<float>(2 * i + 1));
  });
  EXPECT_EQ(compiled, before);
}

TEST_F(Lanes, AFailedCompilationIsToldToAllWhoWaitForIt) {
  config::Override no_fallback("fallback", "false");
  HostBackend backend("fails_to_compile");
  std::atomic<int> tried{0};
  std::atomic<bool> fails{true};
  backend.before_compile = [&](const lazy::Computation&) {
    ++tried;
    std::this_thread::sleep_for(200ms);
    if (fails) throw CompileError(ErrorCode::kCompile, "not today");
  };
  Registered registered(backend);
  std::latch recorded(8);
  InParallel(8, [&](int i) {
    Tensor y = full({3}, static_cast<float>(i), f32, "fails_to_compile") * 2.0f;
    recorded.arrive_and_wait();
    EXPECT_CODE(y.host(), ErrorCode::kCompile, "not today");
  });
  EXPECT_LT(tried, 8);
  fails = false;
  Tensor y = full({3}, 4.0f, f32, "fails_to_compile") * 2.0f;
  EXPECT_EQ(y.to_vector<float>()[2], 8.0f);
}

}  // namespace
}  // namespace hammock
