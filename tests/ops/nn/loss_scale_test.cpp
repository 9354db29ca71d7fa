#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Any Call(const char* name, const std::vector<Any>& args) { return CallOp(name, args); }

TEST(LossScale, ShrinksWhereAGradientIsNotFiniteAndGrowsElsewhere) {
  Tensor a = Vec({2, 4}), b = Vec({kInf, 1}, f16), found = Vec({0});
  Call("_amp_foreach_non_finite_check_and_unscale_",
       {Any(AnyList{Any(a)}), Any(found), Any(Vec({0.5}))});
  EXPECT_TENSOR(a, Type(f32, {2}), {1, 2});
  EXPECT_TENSOR(found, Type(f32, {1}), {0});
  Call("_amp_foreach_non_finite_check_and_unscale_",
       {Any(AnyList{Any(a), Any(b)}), Any(found), Any(Vec({0.5}))});
  EXPECT_TENSOR(b, Type(f16, {2}), {kInf, 0.5});
  EXPECT_TENSOR(found, Type(f32, {1}), {1});

  auto update = [](Tensor& scale, Tensor& tracker, double bad) {
    Call("_amp_update_scale_",
         {Any(scale), Any(tracker), Any(Vec({bad})), Any(2.0), Any(0.5), Any(2)});
  };
  Tensor scale = Vec({8}), tracker = Vec({0}, i32);
  update(scale, tracker, 0);
  EXPECT_TENSOR(scale, Type(f32, {1}), {8});
  EXPECT_TENSOR(tracker, Type(i32, {1}), {1});
  update(scale, tracker, 0);
  EXPECT_TENSOR(scale, Type(f32, {1}), {16});
  EXPECT_TENSOR(tracker, Type(i32, {1}), {0});
  update(scale, tracker, 1);
  EXPECT_TENSOR(scale, Type(f32, {1}), {8});
  // Growth to infinity is no growth.
  Tensor large = Vec({3e38}), one = Vec({1}, i32);
  update(large, one, 0);
  EXPECT_TENSOR(large, Type(f32, {1}), {3e38f});
  EXPECT_TENSOR(one, Type(i32, {1}), {0});
}

}  // namespace
}  // namespace hammock
