// Backends whose results become ready after ExecuteComputation has returned.

#include <gtest/gtest.h>

#include <chrono>

#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class AsynchronousBackend : public Runtime {};

TEST_F(AsynchronousBackend, AsynchronousResultsBecomeReadyLater) {
  HostBackend& backend = MakeBackend("later", 1, true);
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{1, 2}, std::nullopt, "later");
  backend.Hold();
  Tensor y = x + 1.0f;
  mark_step();  // returns at once
  Tensor z = y * 2.0f;
  mark_step();  // needs a result that is not ready
  EXPECT_EQ(backend.executed, 2);
  EXPECT_FALSE(z.is_pending());
  std::jthread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    backend.Release();
  });
  EXPECT_TENSOR_EQ(z, {4, 6}, {2});
  EXPECT_TENSOR_EQ(y, {2, 3}, {2});
}

TEST_F(AsynchronousBackend, BarriersWaitForAsynchronousResults) {
  HostBackend& backend = MakeBackend("awaited", 1, true);
  Registered registered(backend);
  std::atomic<bool> ran{false};
  backend.before_execute = [&](const lazy::Computation&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ran = true;
  };
  Tensor y = ones({2}, f32, "awaited") + 1.0f;
  mark_step();
  wait_device_ops({Device("awaited")});
  EXPECT_TRUE(ran);
  ran = false;
  Tensor z = y + 1.0f;
  mark_step();
  Lazy().DeviceBarrier("awaited");
  EXPECT_TRUE(ran);
  ran = false;
  Tensor w = z + 1.0f;
  mark_step(true);
  EXPECT_TRUE(ran);
  EXPECT_TENSOR_EQ(w, {4, 4}, {2});
}

/// A backend whose first result fails before the others are ready.
class FailsAtOnce : public HostBackend {
 public:
  using HostBackend::HostBackend;
  std::vector<BackendDataPtr> ExecuteComputation(lazy::ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const lazy::BackendDevice& device,
                                                 const lazy::RunContext& run) const override {
    auto results = HostBackend::ExecuteComputation(computation, arguments, device, run);
    if (fails) {
      results[0]->SetError(std::make_shared<DeviceError>(ErrorCode::kDevice, "failed at once"));
    }
    return results;
  }
  bool fails = false;
};

TEST_F(AsynchronousBackend, AResultThatFailsBeforeTheOthersAreReadyFailsTheStep) {
  static auto& backend = *new FailsAtOnce("at_once", 1, true);  // lives as long as its devices
  Registered registered(backend);
  Tensor x = ones({2}, f32, "at_once") + 0.0f;
  mark_step(true);
  backend.Hold();
  backend.fails = true;
  Tensor y = x + 1.0f, z = x * 3.0f;
  mark_step();
  backend.fails = false;
  backend.Release();
  EXPECT_CODE(wait_device_ops({Device("at_once")}), ErrorCode::kDevice, "failed at once");
  Lazy().ClearErrors(y);
  Lazy().ClearErrors(z);
  EXPECT_TENSOR_EQ(y, {2, 2}, {2});
  EXPECT_TENSOR_EQ(z, {3, 3}, {2});
}

TEST_F(AsynchronousBackend, AsynchronousErrorsBelongToTheirValues) {
  HostBackend& backend = MakeBackend("failing", 1, true);
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{0, 1, 2, 3}, std::nullopt, "failing");
  Tensor i = tensor(std::vector<int64_t>{9}, std::nullopt, "failing");
  backend.Hold();
  Tensor bad = gather(x, 0, i);
  int line = __LINE__ - 1;
  Tensor good = x + 1.0f;
  mark_step();
  Tensor behind_bad = bad * 2.0f;
  Tensor behind_good = good * 2.0f;
  mark_step();
  backend.Release();
  EXPECT_CODE(wait_device_ops(), ErrorCode::kIndexOutOfRange, "gather");
  wait_device_ops();
  EXPECT_TENSOR_EQ(behind_good, {2, 4, 6, 8}, {4});
  EXPECT_TENSOR_EQ(good, {1, 2, 3, 4}, {4});
  EXPECT_CODE(bad.host(), ErrorCode::kIndexOutOfRange, Line(line));
  int executed = backend.executed;
  EXPECT_CODE(bad.host(), ErrorCode::kIndexOutOfRange, Line(line));
  EXPECT_CODE(behind_bad.host(), ErrorCode::kIndexOutOfRange, Line(line));
  EXPECT_EQ(backend.executed, executed) << "not run again";
  wait_device_ops();
}

TEST_F(AsynchronousBackend, AnErrorWithoutANodeIsFoundByTryingAlone) {
  HostBackend& backend = MakeBackend("vague");
  backend.before_execute = [](const lazy::Computation& computation) {
    if (computation.to_string().find("exp") == std::string::npos) return;
    throw DeviceError(ErrorCode::kDevice, "something is wrong");
  };
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{0, 1}, std::nullopt, "vague");
  Tensor bad = x.exp();
  Tensor good = x + 1.0f;
  mark_step();
  EXPECT_CODE(wait_device_ops(), ErrorCode::kDevice, "something is wrong");
  EXPECT_TENSOR_EQ(good, {1, 2}, {2});
  EXPECT_CODE(bad.host(), ErrorCode::kDevice, "something is wrong");
  int executed = backend.executed;
  EXPECT_CODE(bad.host(), ErrorCode::kDevice, "something is wrong");
  EXPECT_EQ(backend.executed, executed) << "alone, it is known to fail";
  wait_device_ops();
}

}  // namespace
}  // namespace hammock
