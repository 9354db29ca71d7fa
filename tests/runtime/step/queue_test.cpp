// Who waits for whom: computations that use their own device, the bound of the queue, and syncs
// that are not asynchronous.

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <mutex>
#include <thread>
#include <utility>

#include "hammock/config.h"
#include "hammock/custom_call.h"
#include "hammock/interrupt.h"
#include "runtime/runtime.h"

namespace hammock {
namespace {

using namespace hammock::testing;
using namespace std::chrono_literals;

class Queue : public Runtime {
 protected:
  void SetUp() override {
    Runtime::SetUp();
    big = ones({64, 1024}, f32, "reference");  // too big to run inline
    sync_multi({big});
  }
  Tensor big;
};

/// custom_call of a function of one f32[2] that gives one.
Tensor Call(const std::string& target, const Tensor& x) {
  Any results = CallOp("custom_call",
                       {Any(AnyList{Any(x)}), Any(target), Any(""), Any(AnyList{Any("f32[2]")})});
  return results.ToList().at(0).ToTensor();
}

using Body = std::function<HostTensor(const HostTensor&)>;
void Register(const std::string& target, Body body) {
  RegisterCustomCall(target, [body](std::span<const HostTensor> in, std::string_view) {
    return std::vector<HostTensor>{body(in[0])};
  });
}

// ---- Custom calls that use tensors

TEST_F(Queue, ACustomCallMayUseItsOwnDevice) {
  Register("queue_test.twice", [](const HostTensor& x) {
    Tensor on_device = tensor(x.values<float>()[0], f32, "reference") * 2.0f;
    mark_step();
    Tensor result = stack({on_device, on_device + 1.0f}, 0);
    return result.host();
  });
  Tensor x = OnDevice({3, 4});
  EXPECT_TENSOR_EQ(Call("queue_test.twice", x), {6, 7}, {2});
  // On the queue's thread, with another step behind it.
  Gate gate;
  Tensor y = Call("queue_test.twice", x + big[0][0]);
  Tensor sum = big + y[0];
  mark_step();
  Tensor behind = y + 1.0f;
  mark_step();
  gate.Open();
  EXPECT_TENSOR_EQ(behind, {9, 10}, {2});
  EXPECT_EQ(sum[0][0].item<float>(), 9.0f);
}

TEST_F(Queue, ACustomCallMayCallItself) {
  Register("queue_test.countdown", [](const HostTensor& x) {
    float value = x.values<float>()[0];
    Tensor next = tensor({value - 1, x.values<float>()[1] + value}, f32, "reference");
    return value > 0 ? Call("queue_test.countdown", next).host() : x;
  });
  EXPECT_TENSOR_EQ(Call("queue_test.countdown", OnDevice({4, 0})), {0, 10}, {2});
}

TEST_F(Queue, ACustomCallCannotNeedWhatWaitsForIt) {
  static Tensor later;
  static std::latch started(1), queued(1);
  Register("queue_test.needs_later", [](const HostTensor& x) {
    started.count_down();
    queued.wait();
    EXPECT_CODE(wait_device_ops(), ErrorCode::kExecutionForbidden, "reference:0");
    EXPECT_CODE((later + 1.0f).host(), ErrorCode::kExecutionForbidden, "waits for the same device");
    later.host();
    return x;
  });
  Tensor bad = Call("queue_test.needs_later", OnDevice({1, 2}) + big[0][0]);
  Tensor sum = big + 1.0f;
  mark_step();
  started.wait();
  later = big + 2.0f;
  mark_step();
  queued.count_down();
  EXPECT_CODE(bad.host(), ErrorCode::kExecutionForbidden, "waits for the same device");
  EXPECT_EQ(later[1][1].item<float>(), 3.0f);
  EXPECT_EQ(sum[1][1].item<float>(), 2.0f);
  later = Tensor();
}

// ---- The bound of the queue

TEST_F(Queue, AChangedBoundReachesDevicesThatExist) {
  config::Override bound("max_async_queue", "1");
  Gate gate;
  std::atomic<int> submitted{0};
  std::jthread producer([&] {
    std::vector<Tensor> results;
    for (int i = 0; i < 3; ++i) {
      results.push_back(big + static_cast<float>(i));
      mark_step();
      ++submitted;
    }
  });
  gate.WaitReached();
  while (submitted < 2) std::this_thread::yield();  // one runs, one waits
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(submitted, 2);
  gate.Open();
  producer.join();
  EXPECT_EQ(submitted, 3);
}

// ---- async = false

TEST_F(Queue, WithoutAsynchronyASyncReturnsWhenTheWorkIsDone) {
  Gate gate;
  Tensor theirs = big + 1.0f;
  mark_step();
  gate.WaitReached();  // the device is held
  config::Override async("async", "false");
  std::atomic<bool> opened{false};
  std::jthread opener([&] {
    std::this_thread::sleep_for(50ms);
    opened = true;
    gate.Open();
  });
  Tensor mine = big + 2.0f;
  mark_step();
  EXPECT_TRUE(opened) << "the step returned while its work waited";
  EXPECT_EQ(mine[0][0].item<float>(), 3.0f);
}

TEST_F(Queue, WithoutAsynchronyAReplayReturnsWhenTheWorkIsDone) {
  CompiledGraph graph = extract_compiled_graph(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2.0f}; }, {big});
  Gate gate;
  Tensor theirs = big + 1.0f;
  mark_step();
  gate.WaitReached();
  config::Override async("async", "false");
  std::atomic<bool> opened{false};
  std::jthread opener([&] {
    std::this_thread::sleep_for(50ms);
    opened = true;
    gate.Open();
  });
  Tensor mine = graph({big})[0];
  EXPECT_TRUE(opened);
  EXPECT_EQ(mine[0][0].item<float>(), 2.0f);
}

// ---- Waits that a host language ends

TEST_F(Queue, AWaitEndsWhereItsCheckThrows) {
  Gate gate;
  Tensor x = big + 1.0f;
  mark_step();
  gate.WaitReached();
  struct Interrupted {};
  SetWaitCheck([] { throw Interrupted(); });
  EXPECT_THROW(x.host(), Interrupted);
  EXPECT_THROW(sync_multi({x}), Interrupted);
  SetWaitCheck([] {});
  gate.Open();
  EXPECT_EQ(x[0][0].item<float>(), 2.0f) << "the work went on";
  SetWaitCheck(nullptr);
  EXPECT_EQ((x + 1.0f)[0][0].item<float>(), 3.0f);
}

std::mutex host_mutex;
constinit thread_local bool holds_host = false;
constexpr HostLock kHostLock{.release = []() -> void* {
                               if (!std::exchange(holds_host, false)) return nullptr;
                               host_mutex.unlock();
                               return &host_mutex;
                             },
                             .take_back =
                                 [](void*) {
                                   host_mutex.lock();
                                   holds_host = true;
                                 }};

TEST_F(Queue, AWaitLetsGoOfTheHostsLock) {
  Gate gate;
  Tensor x = big + 1.0f;
  mark_step();
  gate.WaitReached();
  SetHostLock(&kHostLock);
  kHostLock.take_back(nullptr);
  std::jthread opener([&] {
    std::lock_guard lock(host_mutex);
    gate.Open();
  });
  EXPECT_EQ(x[0][0].item<float>(), 2.0f);
  EXPECT_TRUE(holds_host);
  opener.join();
  kHostLock.release();
  EXPECT_EQ((x + 1.0f)[0][0].item<float>(), 3.0f);
  EXPECT_FALSE(holds_host) << "a thread that does not hold the lock does not take it";
  SetHostLock(nullptr);
}

}  // namespace
}  // namespace hammock
