// Elements that are read where they are.

#include "hammock/lazy/host_sharing.h"

#include <gtest/gtest.h>

#include "runtime/runtime.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class HostSharing : public Runtime {
 protected:
  static Tensor Threes() { return full({1000}, 1.5, f32, "cpu") * 2.0f; }
  static void AddOne(Tensor& x) {
    NoGradGuard no_grad;
    x += 1.0f;
    mark_step();
    wait_device_ops();
  }
  static bool AllAre(const HostTensor& elements, float expected) {
    auto values = elements.values<float>();
    return values.size() == 1000 &&
           std::all_of(values.begin(), values.end(), [&](float v) { return v == expected; });
  }
};

TEST_F(HostSharing, OfAResultIsItsMemory) {
  Tensor x = Threes();
  HostTensor first = SharedElements(x), second = SharedElements(x), copied = x.host();
  EXPECT_TRUE(AllAre(first, 3) && AllAre(copied, 3));
  EXPECT_EQ(first.data(), second.data());
  EXPECT_NE(first.data(), copied.data());
}

TEST_F(HostSharing, ForbidsDonationWhileItIsHeld) {
  Tensor x = Threes();
  HostTensor held = SharedElements(x);
  const void* memory = held.data();
  AddOne(x);
  EXPECT_NE(SharedElements(x).data(), memory);
  EXPECT_TRUE(AllAre(held, 3) && AllAre(x.host(), 4));
  held = SharedElements(x);
  memory = held.data();
  held = {};
  AddOne(x);
  EXPECT_EQ(SharedElements(x).data(), memory) << "is donated again";
  EXPECT_TRUE(AllAre(x.host(), 5));
}

TEST_F(HostSharing, OutlivesItsTensor) {
  HostTensor held;
  {
    Tensor x = Threes();
    held = SharedElements(x);
  }
  for (int i = 0; i < 4; ++i) (Threes() * 7.0f).host();
  EXPECT_TRUE(AllAre(held, 3));
}

TEST_F(HostSharing, IsNotOfBorrowedMemory) {
  std::vector<float> mine(1000, 3);
  Tensor x = from_blob(mine.data(), {1000}, f32, BorrowedMemory([] {}), "cpu");
  HostTensor before = SharedElements(x);
  (x + 1.0f).host();
  HostTensor after = SharedElements(x), of_alias = SharedElements(x.reshape({1000}));
  mine.assign(1000, 7);
  EXPECT_TRUE(AllAre(before, 3) && AllAre(after, 3) && AllAre(of_alias, 3));
}

TEST_F(HostSharing, CopiesWhereTheBackendDoesNotShare) {
  Tensor x = (full({1000}, 1.5, f32, "reference") * 2.0f);
  EXPECT_TRUE(AllAre(SharedElements(x), 3));
  EXPECT_EQ(SharedElements(full({2}, 1.0, f32, "cpu").sum()).at(0).ToDouble(), 2);
  EXPECT_THROW(SharedElements(Tensor()), Error);
}

}  // namespace
}  // namespace hammock
