#include "backends/cpu/matmul/channel_epilogue.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>

namespace hammock::cpu {
namespace {

using compiler::Access;
using compiler::BufferId;
using compiler::Instr;
using compiler::Kernel;
using compiler::Launch;
using Kind = Instr::Kind;

constexpr int kResult = 0, kBias = 1, kOther = 2, kLow = 3, kOut = 4;  // accesses, and buffers

Instr Scalar(ScalarFn fn, int a, int b) {
  return {.kind = Kind::kScalar, .fn = fn, .operands = {a, b, -1}};
}
Instr Load(int access) { return {.kind = Kind::kLoad, .access = access}; }

/// out = max(result + bias + other, 0.25), of 10 positions and 32 channels.
struct Example {
  Kernel kernel;
  Launch launch;

  Example() {
    kernel.accesses.resize(5);
    kernel.accesses[kLow].kind = Access::Kind::kConstant;
    kernel.instrs = {Load(kResult),
                     Load(kBias),
                     Scalar(ScalarFn::kAdd, 0, 1),
                     Load(kOther),
                     Scalar(ScalarFn::kAdd, 3, 2),
                     {.kind = Kind::kConstant, .access = kLow},
                     Scalar(ScalarFn::kMaximum, 4, 5),
                     {.kind = Kind::kStore, .operands = {6, -1, -1}, .access = kOut}};
    launch.rows = 10;
    launch.columns = 32;
    for (int i = 0; i < 5; ++i) {
      launch.maps.push_back({BufferId(i), 0, {}, 32, 1});
    }
    launch.maps[kBias].row = 0;
    launch.maps[kLow] = {BufferId(), std::bit_cast<int32_t>(0.25F), {}, 0, 0};
  }

  std::optional<ChannelEpilogueForm> Find() {
    launch.kernel = std::make_shared<const Kernel>(kernel);
    return FindChannelEpilogue(launch, BufferId(kResult));
  }
};

TEST(ChannelEpilogue, HasABiasAnotherImageAndBounds) {
  const auto form = Example().Find();
  ASSERT_TRUE(form);
  EXPECT_EQ(form->bias, kBias);
  EXPECT_EQ(form->other, kOther);
  EXPECT_EQ(form->out, kOut);
  EXPECT_EQ(form->low, 0.25F);
  EXPECT_EQ(form->high, std::numeric_limits<float>::infinity());
}

TEST(ChannelEpilogue, IsNoOtherKernel) {
  const std::pair<const char*, std::function<void(Example&)>> kChanges[] = {
      {"a bias of positions",
       [](Example& e) {
         e.launch.maps[kBias] = {BufferId(kBias), 0, {}, 1, 0};
       }},
      {"a transposed store",
       [](Example& e) {
         e.launch.maps[kOut] = {BufferId(kOut), 0, {}, 1, 10};
       }},
      {"a part of an image", [](Example& e) { e.launch.maps[kOther].offset = 32; }},
      {"an outer loop", [](Example& e) { e.launch.outer = {2}; }},
      {"another order of the bound",
       [](Example& e) { e.kernel.instrs[6] = Scalar(ScalarFn::kMaximum, 5, 4); }},
      {"another function", [](Example& e) { e.kernel.instrs[4].fn = ScalarFn::kMul; }},
      {"another dtype", [](Example& e) { e.kernel.instrs[7].dtype = DType::kF64; }},
      {"a bound that is no number", [](Example& e) { e.launch.maps[kLow].offset = 0x7fc00000; }},
      {"a store past the caches", [](Example& e) { e.kernel.accesses[kOut].streams = true; }},
      {"two stores", [](Example& e) { e.kernel.instrs.push_back(e.kernel.instrs[7]); }},
      {"another value stored", [](Example& e) { e.kernel.instrs[7].operands[0] = 4; }},
  };
  for (const auto& [about, change] : kChanges) {
    Example example;
    change(example);
    EXPECT_FALSE(example.Find()) << about;
  }
}

}  // namespace
}  // namespace hammock::cpu
