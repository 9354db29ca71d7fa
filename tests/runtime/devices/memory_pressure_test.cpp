// Derived data, limits, and what happens when memory is short.

#include <gtest/gtest.h>

#include <stop_token>
#include <thread>

#include "hammock/config.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

constexpr int64_t kMegabyte = 1 << 20;

class Memory : public Runtime {
 protected:
  void TearDown() override {
    SetMemoryLimit(device, 0);
    Runtime::TearDown();
  }
  static BackendDataPtr DataOf(const Tensor& tensor) {
    return tensor.value().node->slots()[0].data;
  }
  /// Room for `bytes` more than is in use now.
  void LimitTo(int64_t bytes) { SetMemoryLimit(device, GetMemoryInfo(device).in_use + bytes); }

  const Device device{"reference"};
};

TEST_F(Memory, DerivedFormsAreCounted) {
  Tensor weight = OnDevice({1, 2});
  lazy::MemoryInfo before = GetMemoryInfo(device);
  DataOf(weight)->AttachDerived("packed", std::make_shared<int>(1), 1000);
  DataOf(weight)->AttachDerived("other", std::make_shared<int>(1), 10);
  DataOf(weight)->AttachDerived("other", std::make_shared<int>(1), 20);
  EXPECT_EQ(GetMemoryInfo(device).derived - before.derived, 1020);
  EXPECT_EQ(GetMemoryInfo(device).in_use - before.in_use, 1020);
  EXPECT_EQ(GetMemoryInfo("null").derived, 0) << "by device";
  EXPECT_EQ(FreeMemory(device), 1020);
  EXPECT_EQ(GetMemoryInfo(device).derived, 0);
  EXPECT_EQ(DataOf(weight)->GetDerived("packed"), nullptr);
  DataOf(weight)->AttachDerived("packed", std::make_shared<int>(1), 7);
  weight = Tensor();
  EXPECT_EQ(GetMemoryInfo(device).derived, 0) << "they go with the data";
}

TEST_F(Memory, PressureDropsDerivedFormsBeforeAStepFails) {
  Tensor weight = ones({256, 1024}, f32, device) + 0.0f;
  sync_multi({weight});
  std::weak_ptr<int> form;
  {
    auto packed = std::make_shared<int>(1);
    form = packed;
    DataOf(weight)->AttachDerived("packed", packed, 4 * kMegabyte);
  }
  LimitTo(kMegabyte / 2);
  int64_t pressed = CounterOf("MemoryPressure"), failed = CounterOf("FailedSteps");
  Tensor doubled = weight * 2.0f;
  EXPECT_EQ(doubled.host().at(5).ToDouble(), 2.0);
  EXPECT_EQ(CounterOf("MemoryPressure"), pressed + 1);
  EXPECT_EQ(CounterOf("FailedSteps"), failed);
  EXPECT_TRUE(form.expired());
}

TEST_F(Memory, PressureDropsDerivedFormsBeforeAnUploadFails) {
  Tensor weight = OnDevice({1, 2});
  DataOf(weight)->AttachDerived("packed", std::make_shared<int>(1), 4 * kMegabyte);
  LimitTo(1000);
  Tensor x = tensor(std::vector<float>(1000, 1.0f), {1000}, f32, device);
  EXPECT_EQ(sum(x).item<float>(), 1000);
  EXPECT_EQ(GetMemoryInfo(device).derived, 0);
}

TEST_F(Memory, AStepThatFailsNamesWhatIsLarge) {
  Tensor large = zeros({512, 1024}, f32, device) + 1.0f;
  const int line = __LINE__ - 1;
  Tensor small = OnDevice({1, 2, 3});
  sync_multi({large, small});
  LimitTo(kMegabyte);
  Tensor more = large + 1.0f;
  Raised raised = ErrorOf([&] { more.host(); });
  EXPECT_EQ(raised.code, ErrorCode::kOutOfMemory);
  EXPECT_NE(raised.what.find("largest live values on reference:0"), std::string::npos)
      << raised.what;
  size_t first = raised.what.find("f32[512,1024] made at ");
  ASSERT_NE(first, std::string::npos) << raised.what;
  EXPECT_NE(raised.what.find(Line(line)), std::string::npos) << raised.what;
  EXPECT_GT(raised.what.find("f32[3]"), first) << "the largest first: " << raised.what;
  EXPECT_TENSOR_EQ(small + 0.0f, {1, 2, 3}, {3});
  SetMemoryLimit(device, 0);
  Lazy().ClearErrors(more);
  EXPECT_EQ(more.host().at(0).ToDouble(), 2.0) << "it was rolled back";
}

// For the sanitizers: a write lets go of the value that the tensor had. So many tensors that one is
// written while they are looked at.
TEST_F(Memory, AStepThatFailsLooksAtTensorsThatOthersWrite) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 5000; ++i) tensors.push_back(OnHost({1}));
  LimitTo(kMegabyte);
  std::jthread writer([&](const std::stop_token& stop) {
    Tensor x = OnHost({1, 2});
    while (!stop.stop_requested()) x.fill_(1.0f);
  });
  for (int round = 0; round < 5; ++round) {
    Tensor large = zeros({512, 1024}, f32, device) + 1.0f;
    EXPECT_CODE(large.host(), ErrorCode::kOutOfMemory);
  }
}

TEST_F(Memory, LimitsAreChecked) {
  EXPECT_CODE(SetMemoryLimit(device, -1), ErrorCode::kValue);
  HostBackend backend("nolimit");
  Registered registered(backend);
  EXPECT_CODE(SetMemoryLimit("nolimit", 5), ErrorCode::kNotSupported);
  SetMemoryLimit(device, 1 << 30);
  EXPECT_EQ(GetMemoryInfo(device).limit, 1 << 30);
}

/// Holds memory in a cache until it is asked to give it back; runs out of it until then.
class HoardingBackend : public HostBackend {
 public:
  HoardingBackend() : HostBackend("hoard") {
    before_execute = [this](const lazy::Computation&) {
      ++tries;
      if (hoarded || hopeless) throw OutOfMemory(ErrorCode::kOutOfMemory, "hoard: full");
    };
  }
  lazy::MemoryInfo GetMemoryInfo(const lazy::BackendDevice&) const override {
    return {.reserved = hoarded ? 100 : 0};
  }
  void FreeCachedMemory(const lazy::BackendDevice&) const override { hoarded = false; }
  mutable std::atomic<bool> hoarded{true};
  std::atomic<bool> hopeless{false};
  std::atomic<int> tries{0};
};

/// Does not know how much memory is in use.
class UnsureBackend : public HostBackend {
 public:
  UnsureBackend() : HostBackend("unsure") {}
  lazy::MemoryInfo GetMemoryInfo(const lazy::BackendDevice&) const override {
    if (unsure) throw std::runtime_error("no idea");
    return {};
  }
  std::atomic<bool> unsure{false};
};

TEST_F(Memory, ErrorsOfAskingNameTheMethodAndTheDevice) {
  UnsureBackend backend;
  Registered registered(backend);
  Tensor x = ones({2}, f32, "unsure");
  backend.unsure = true;
  constexpr char kWhat[] = "GetMemoryInfo on unsure:0: no idea";
  EXPECT_CODE(GetMemoryInfo("unsure"), ErrorCode::kDevice, kWhat);
  Tensor y = x + 1.0f;
  EXPECT_CODE(y.host(), ErrorCode::kDevice, kWhat);
  backend.unsure = false;
  Lazy().ClearErrors(y);
  EXPECT_EQ(y.host().at(0).ToDouble(), 2) << "nobody waits for the one that failed";
}

TEST_F(Memory, BackendsAreAskedToFreeTheirCaches) {
  HoardingBackend backend;
  Registered registered(backend);
  Tensor x = ones({2}, f32, "hoard") + 1.0f;
  EXPECT_EQ(x.host().at(0).ToDouble(), 2);
  EXPECT_EQ(backend.tries, 2);
  EXPECT_FALSE(backend.hoarded);
  backend.hopeless = true;
  Tensor y = x + 1.0f;
  EXPECT_CODE(y.host(), ErrorCode::kOutOfMemory, "hoard: full");
  EXPECT_EQ(backend.tries, 3) << "nothing could be freed, so it is not tried again";
  backend.hoarded = true;
  Lazy().ClearErrors(y);
  EXPECT_CODE(y.host(), ErrorCode::kOutOfMemory, "hoard: full");
  EXPECT_EQ(backend.tries, 5) << "once more, not for ever";
}

}  // namespace
}  // namespace hammock
