#include "hammock/error.h"
#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

TEST(InPlace, WritesAndReturnsItself) {
  Tensor x = Vec({1, 4});
  EXPECT_TRUE(x.add_(1).is_same(x));
  EXPECT_TENSOR(x, Type(f32, {2}), {2, 5});
  x.mul_(Vec({2, 3})).sub_(1, 2);
  EXPECT_TENSOR(x, Type(f32, {2}), {2, 13});
  sqrt_(x.fill_(9));
  EXPECT_TENSOR(x, Type(f32, {2}), {3, 3});
  x.zero_();
  EXPECT_TENSOR(x, Type(f32, {2}), {0, 0});
}

TEST(InPlace, KeepsTheDTypeOfSelf) {
  Tensor x = Vec({1, 2}, f16);
  x.add_(Vec({0.5, 0.5}, f64));
  EXPECT_TENSOR(x, Type(f16, {2}), {1.5, 2.5});
  x.gt_(2);
  EXPECT_TENSOR(x, Type(f16, {2}), {0, 1});
}

TEST(InPlace, RefusesWhatDoesNotFit) {
  Tensor i = Vec({1, 2}, i64), x = Vec({1, 2});
  EXPECT_THROW(i.add_(0.5), Error);
  EXPECT_THROW(i.div_(2), Error);
  EXPECT_THROW(x.add_(zeros({3, 2})), Error);
  EXPECT_ERROR(fill_(x, Vec({1, 2})), ValueError, "0-d tensor");
  EXPECT_TENSOR(i, Type(i64, {2}), {1, 2});
  EXPECT_TENSOR(x, Type(f32, {2}), {1, 2});
}

TEST(InPlace, WritesThroughViews) {
  Tensor x = zeros({2, 2});
  x.select(0, 0).add_(1);
  x.select(0, 1) += 2;
  EXPECT_TENSOR(x, Type(f32, {2, 2}), {1, 1, 2, 2});
  x.t().mul_(Vec({1, 10}));
  EXPECT_TENSOR(x, Type(f32, {2, 2}), {1, 1, 20, 20});
}

TEST(InPlace, FormsWithMoreArguments) {
  Tensor x = Vec({-3, 7});
  clamp_(x, -1, 5);
  EXPECT_TENSOR(x, Type(f32, {2}), {-1, 5});
  leaky_relu_(x, 0.5);
  EXPECT_TENSOR(x, Type(f32, {2}), {-0.5, 5});
  addcmul_(x, Vec({1, 1}), Vec({2, 2}), 0.25);
  EXPECT_TENSOR(x, Type(f32, {2}), {0, 5.5});
  div_(x, 2, "floor");
  EXPECT_TENSOR(x, Type(f32, {2}), {0, 2});
  nan_to_num_(x);
  relu_(x.sub_(1));
  EXPECT_TENSOR(x, Type(f32, {2}), {0, 1});
}

TEST(InPlace, ByName) {
  Tensor x = Vec({1, 2});
  CallOp("add_", {x, 1});
  CallOp("add_", {x, x}, {{"alpha", 2}});
  EXPECT_TENSOR(x, Type(f32, {2}), {6, 9});
  CallOp("zero_", {x});
  EXPECT_TENSOR(x, Type(f32, {2}), {0, 0});
}

TEST(InPlace, AnotherLearningRateDoesNotRecompile) {
  auto step = [](double rate) {
    Tensor weight = Vec({1, 2}), gradient = Vec({1, 1});
    weight.sub_(gradient, rate);
    return weight.to_vector<float>()[0];
  };
  EXPECT_EQ(step(0.5), 0.5f);
  int64_t before = Compiles();
  EXPECT_EQ(step(0.0), 1.0f);
  EXPECT_EQ(step(1.0), 0.0f);
  EXPECT_EQ(Compiles(), before);
}

}  // namespace
}  // namespace hammock
