// Memory that dying inputs give to a step.

#include <gtest/gtest.h>

#include <future>

#include "hammock/config.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

/// The masks of the executions that `fn` causes.
template <class F>
std::vector<std::vector<bool>> MasksOf(HostBackend& backend, F fn) {
  size_t before = backend.donations().size();
  fn();
  wait_device_ops();
  auto all = backend.donations();
  return {all.begin() + static_cast<long>(before), all.end()};
}

int Donated(const std::vector<std::vector<bool>>& masks) {
  int count = 0;
  for (const auto& mask : masks) count += static_cast<int>(std::count(mask.begin(), mask.end(), 1));
  return count;
}

class Donation : public Runtime {
 protected:
  static void SetUpTestSuite() {
    backend = &MakeBackend("donor");
    lazy::RegisterBackend(backend);
  }
  static void TearDownTestSuite() { lazy::UnregisterBackend("donor", true); }
  static Tensor Ready(std::initializer_list<float> values) {
    Tensor result = tensor(std::vector<float>(values), std::nullopt, "donor") + 0.0f;
    sync_multi({result});
    return result;
  }
  static HostBackend* backend;
};
HostBackend* Donation::backend = nullptr;

TEST_F(Donation, OfInputsThatDieWithTheStep) {
  Tensor w = Ready({1, 2});
  auto masks = MasksOf(*backend, [&] {
    w = w + 1.0f;
    mark_step();
  });
  EXPECT_EQ(Donated(masks), 1);
  EXPECT_TENSOR_EQ(w, {2, 3}, {2});
}

TEST_F(Donation, NeverOfInputsThatSomebodyHolds) {
  Tensor w = Ready({1, 2});
  Tensor old = w;
  Tensor u = Ready({3, 4});
  Tensor uses_u = u * 5.0f;  // pending on another thread's list: not part of the step
  auto masks = MasksOf(*backend, [&] {
    w = w + 1.0f;
    mark_step();
  });
  EXPECT_EQ(Donated(masks), 0);
  EXPECT_TENSOR_EQ(old, {1, 2}, {2});
}

TEST_F(Donation, NeverOfWhatAPendingOpStillNeeds) {
  Tensor w = Ready({1, 2});
  Tensor later;
  std::thread([&] { later = w * 3.0f; }).join();  // another thread's
  auto masks = MasksOf(*backend, [&] {
    w = w + 1.0f;
    mark_step();
  });
  EXPECT_EQ(Donated(masks), 0);
  EXPECT_TENSOR_EQ(later, {3, 6}, {2});
  EXPECT_TENSOR_EQ(w, {2, 3}, {2});
}

TEST_F(Donation, OnlyAtFullSteps) {
  Tensor w = Ready({1, 2});
  auto masks = MasksOf(*backend, [&] {
    w = w + 1.0f;
    w.host();
    w = w + 1.0f;
    sync_multi({w});
    Lazy().SyncLiveTensorsGraph(nullptr, {}, true);
  });
  EXPECT_EQ(Donated(masks), 0);
}

TEST_F(Donation, NeverOfAliasedData) {
  Tensor base = Ready({1, 2, 3, 4});
  Tensor view = base.slice(0, 1, 3);
  auto masks = MasksOf(*backend, [&] {
    base = base + 1.0f;  // the handle moves on, the view stays
    mark_step();
  });
  EXPECT_EQ(Donated(masks), 0);
  EXPECT_TENSOR_EQ(view, {2, 3}, {2});
}

TEST_F(Donation, OfTheOldValueOfAWrittenGroup) {
  Tensor base = Ready({1, 2, 3, 4});
  Tensor view = base.slice(0, 1, 3);
  mark_step();
  auto masks = MasksOf(*backend, [&] {
    view.add_(1.0f);
    mark_step();
  });
  EXPECT_TENSOR_EQ(base, {1, 3, 4, 4}, {4});
  EXPECT_TENSOR_EQ(view, {3, 4}, {2});
}

TEST_F(Donation, NeverOfScalars) {
  Tensor w = Ready({1, 2});
  for (int i = 0; i < 3; ++i) {
    auto masks = MasksOf(*backend, [&] {
      w = w * 0.5f + 0.5f;  // equal scalars share their data
      mark_step();
    });
    EXPECT_EQ(Donated(masks), 1);
  }
  EXPECT_TENSOR_NEAR(w, {1, 1.125}, {2});
}

TEST_F(Donation, IsSwitchedOffByConfig) {
  config::Override off("param_aliasing", "false");
  Tensor w = Ready({1, 2});
  auto masks = MasksOf(*backend, [&] {
    w = w + 1.0f;
    mark_step();
  });
  EXPECT_EQ(Donated(masks), 0);
}

TEST_F(Donation, ByNameGivesTheMemoryToTheLastOpThatNeedsIt) {
  Tensor w = Ready({1, 2});
  Tensor y = w + 1.0f;
  donate(w);
  auto masks = MasksOf(*backend, [&] { EXPECT_TENSOR_EQ(y, {2, 3}, {2}); });
  EXPECT_EQ(Donated(masks), 1);
}

TEST_F(Donation, ByNameWaitsForAllOpsThatNeedIt) {
  for (bool handle_dies : {false, true}) {
    Tensor w = Ready({1, 2});
    Tensor y = w + 1.0f;
    Tensor z = w + 2.0f;
    donate(w);
    if (handle_dies) w = Tensor();
    auto first = MasksOf(*backend, [&] { EXPECT_TENSOR_EQ(y, {2, 3}, {2}); });
    EXPECT_EQ(Donated(first), 0);
    auto second = MasksOf(*backend, [&] { EXPECT_TENSOR_EQ(z, {3, 4}, {2}); });
    EXPECT_EQ(Donated(second), 1);
  }
}

TEST_F(Donation, ByNameOfHostDataAndOfPendingValues) {
  Tensor host = tensor(std::vector<float>{1, 2}, std::nullopt, "donor");
  Tensor y = host + 1.0f;
  donate(host);
  EXPECT_TENSOR_EQ(y, {2, 3}, {2});
  Tensor pending = y * 2.0f;
  Tensor z = pending + 1.0f;
  donate(pending);
  EXPECT_TENSOR_EQ(z, {5, 7}, {2});
}

TEST_F(Donation, UseAfterDonateIsAnError) {
  Tensor w = Ready({1, 2});
  Tensor same = w;
  donate(w);
  EXPECT_CODE(w + 1.0f, ErrorCode::kUseAfterDonate, "donated");
  EXPECT_CODE(w.host(), ErrorCode::kUseAfterDonate, "f32[2]");
  EXPECT_CODE(same.host(), ErrorCode::kUseAfterDonate);
  EXPECT_CODE(w.view({1, 2}), ErrorCode::kUseAfterDonate);
  EXPECT_CODE(w.add_(1.0f), ErrorCode::kUseAfterDonate);
  EXPECT_CODE(donate(w), ErrorCode::kUseAfterDonate);
  EXPECT_NE(w.summary().find("donated"), std::string::npos);
  EXPECT_EQ(w.sizes(), Dims({2}));
  mark_step();
  w = Ready({5});
  EXPECT_TENSOR_EQ(w, {5}, {1});
}

TEST_F(Donation, ByNameOfAliasesIsRefused) {
  Tensor w = Ready({1, 2});
  Tensor v = w.view({2, 1});
  EXPECT_CODE(donate(w), ErrorCode::kValue, "views");
  EXPECT_CODE(donate(v), ErrorCode::kValue, "views");
  EXPECT_TENSOR_EQ(v, {1, 2}, {2, 1});
  Tensor none;
  EXPECT_CODE(donate(none), ErrorCode::kUninitializedTensor);
}

TEST_F(Donation, OfWhatAStepInTheQueueComputes) {
  Tensor w = full({100000}, 1.0f, f32, "donor") + 0.0f;  // large, so that steps are queued
  sync_multi({w});
  std::promise<void> gate;
  backend->before_execute = [open = gate.get_future().share()](const lazy::Computation&) {
    open.wait();
  };
  auto masks = MasksOf(*backend, [&] {
    for (int i = 0; i < 3; ++i) {
      w = w + 1.0f;
      mark_step();
    }
    gate.set_value();
  });
  backend->before_execute = nullptr;
  EXPECT_EQ(Donated(masks), 3);
  EXPECT_EQ(w[9].item<float>(), 4);
}

TEST_F(Donation, OfPendingValuesIfAnAsynchronousBackendKeepsThemOnFailure) {
  for (bool keeps : {false, true}) {
    HostBackend& late = MakeBackend(keeps ? "keeper" : "loser", 1, /*asynchronous=*/true);
    late.keeps_donated = keeps;
    Registered registered(late);
    Tensor w = ones({2}, f32, late.GetDefaultDeviceType()->toString().c_str()) + 0.0f;
    sync_multi({w});
    late.Hold();
    auto masks = MasksOf(late, [&] {
      for (int i = 0; i < 3; ++i) {
        step([&] { w.add_(1.0f); });
      }
      late.Release();
    });
    EXPECT_EQ(Donated(masks), keeps ? 3 : 1) << "only the first argument is ready";
    EXPECT_TENSOR_EQ(w, {4, 4}, {2});
  }
}

TEST_F(Donation, IsUndoneByAFailure) {
  Tensor w = Ready({1, 2});
  bool fail = true;
  backend->before_execute = [&](const lazy::Computation&) {
    if (fail) throw DeviceError(ErrorCode::kDevice, "not now");
  };
  w = w + 1.0f;
  mark_step();
  EXPECT_CODE(mark_step(), ErrorCode::kDevice, "not now");
  fail = false;
  Lazy().ClearErrors(w);
  EXPECT_TENSOR_EQ(w, {2, 3}, {2});
  backend->before_execute = nullptr;
}

}  // namespace
}  // namespace hammock
