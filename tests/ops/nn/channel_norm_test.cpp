#include "ops/expect.h"

namespace hammock {
namespace {

TEST(BatchNorm, TrainsByTheBatchAndKeepsRunningMoments) {
  Tensor x = tensor({{1.0, 0.0}, {3.0, 4.0}}), mean = zeros({2}), var = ones({2});
  EXPECT_TENSOR(batch_norm(x, mean, var, Vec({1, 2}), Vec({0, 1}), true, 0.5, 0.0),
                Type(f32, {2, 2}), {-1, -1, 1, 3}, 1e-6);
  EXPECT_TENSOR(mean, Type(f32, {2}), {1, 1});
  // The running variance is the unbiased one: 2 and 8.
  EXPECT_TENSOR(var, Type(f32, {2}), {1.5, 4.5});
}

TEST(BatchNorm, EvaluatesByRunningMoments) {
  Tensor x = tensor({{1.0, 0.0}, {3.0, 4.0}}), mean = Vec({1, 2}), var = Vec({4, 1});
  EXPECT_TENSOR(batch_norm(x, mean, var, std::nullopt, std::nullopt, false, 0.1, 0.0),
                Type(f32, {2, 2}), {0, -2, 1, 2}, 1e-6);
  EXPECT_TENSOR(mean, Type(f32, {2}), {1, 2});
  EXPECT_TENSOR(batch_norm(Vec({}), Vec({}), Vec({})), Type(f32, {0}), {});
  EXPECT_ERROR(batch_norm(x, std::nullopt, std::nullopt), ValueError, "unless training");
  EXPECT_ERROR(batch_norm(x, Vec({1}), var), ValueError, "running_mean must hold one number");
  EXPECT_ERROR(batch_norm(ones({1, 2}), mean, var, {}, {}, true), ValueError,
               "more than one value per channel");
}

TEST(BatchNorm, NativeReturnsMoments) {
  Tensor x = tensor({{1.0, 0.0}, {3.0, 4.0}});
  auto [y, mean, scale] = native_batch_norm(x, {}, {}, {}, {}, true, 0.1, 0.0);
  EXPECT_TENSOR(y, Type(f32, {2, 2}), {-1, -1, 1, 1}, 1e-6);
  EXPECT_TENSOR(mean, Type(f32, {2}), {2, 2});
  EXPECT_TENSOR(scale, Type(f32, {2}), {1, 0.5}, 1e-6);
  auto [z, none, empty] = native_batch_norm(x, {}, {}, zeros({2}), ones({2}), false, 0.1, 0.0);
  EXPECT_TENSOR(z, Type(f32, {2, 2}), {1, 0, 3, 4}, 1e-6);
  EXPECT_TENSOR(none, Type(f32, {0}), {});
  EXPECT_TENSOR(empty, Type(f32, {0}), {});
}

TEST(BatchNorm, AnotherMomentumDoesNotRecompile) {
  Tensor x = tensor({{1.0, 0.0}, {3.0, 4.0}}), mean = zeros({2}), var = ones({2});
  auto run = [&](double momentum) {
    batch_norm(x, mean, var, {}, {}, true, momentum).host();
    mean.host();
    var.host();
  };
  run(0.1);
  run(0.2);
  int64_t before = Compiles();
  run(0.3);
  EXPECT_EQ(Compiles(), before);
}

TEST(BatchNorm, RunningMomentsHaveNoHistory) {
  Tensor x = tensor({{1.0, 0.0}, {3.0, 4.0}}).requires_grad_(), mean = zeros({2}), var = ones({2});
  Tensor y = batch_norm(x, mean, var, {}, {}, true, 0.5, 0.0);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(mean.requires_grad());
  EXPECT_FALSE(var.requires_grad());
  // Moving all of a channel alike changes nothing.
  y.backward(tensor({{1.0, 1.0}, {1.0, 1.0}}));
  EXPECT_TENSOR(x.grad(), Type(f32, {2, 2}), {0, 0, 0, 0}, 1e-6);
}

TEST(GroupNorm, NormalisesGroups) {
  Tensor x = tensor({{1.0, 3.0, 2.0, 6.0}});
  EXPECT_TENSOR(group_norm(x, 2, Vec({1, 1, 2, 2}), Vec({0, 0, 1, 1}), 0), Type(f32, {1, 4}),
                {-1, 1, -1, 3}, 1e-6);
  auto [y, mean, scale] = native_group_norm(x, {}, {}, 1, 4, 1, 2, 0);
  EXPECT_TENSOR(y, Type(f32, {1, 4}), {-1, 1, -1, 1}, 1e-6);
  EXPECT_TENSOR(mean, Type(f32, {1, 2}), {2, 4});
  EXPECT_TENSOR(scale, Type(f32, {1, 2}), {1, 0.5}, 1e-6);
  EXPECT_ERROR(group_norm(x, 3), ValueError, "do not divide into 3 groups");
  EXPECT_ERROR(group_norm(x, 2, Vec({1})), ValueError, "weight must hold one number");
  EXPECT_ERROR(group_norm(Vec({1}), 1), ValueError, "at least 2 dims");
}

TEST(InstanceNorm, NormalisesEachSampleAndAveragesRunningMoments) {
  Tensor x = tensor(std::vector<float>{1, 3, 10, 14}, {2, 1, 2});
  Tensor mean = zeros({1}), var = ones({1});
  EXPECT_TENSOR(instance_norm(x, mean, var, Vec({2}), Vec({1}), true, 0.5, 0.0),
                Type(f32, {2, 1, 2}), {-1, 3, -1, 3}, 1e-6);
  EXPECT_TENSOR(mean, Type(f32, {1}), {3.5});           // means 2 and 12
  EXPECT_TENSOR(var, Type(f32, {1}), {(1 + 5) / 2.0});  // variances 2 and 8
  EXPECT_TENSOR(instance_norm(x, Vec({1}), Vec({4}), {}, {}, false, 0.1, 0.0), Type(f32, {2, 1, 2}),
                {0, 1, 4.5, 6.5}, 1e-6);
  EXPECT_ERROR(instance_norm(ones({2, 3})), ValueError, "more than one position");
}

TEST(LocalResponseNorm, DividesByNeighbours) {
  Tensor x = tensor(std::vector<float>{1, 2, 3}, {1, 3, 1});
  // Window of 2: squares 0+1, 1+4, 4+9, halved.
  EXPECT_TENSOR(local_response_norm(x, 2, 2, 1, 1), Type(f32, {1, 3, 1}),
                {1.0 / 2, 2.0 / 6, 3.0 / 14}, 1e-6);
  EXPECT_ERROR(local_response_norm(Vec({1}), 2), ValueError, "at least 3 dims");
  EXPECT_ERROR(local_response_norm(x, 0), ValueError, "size must be at least 1");
}

TEST(Renorm, ScalesLongSlicesDown) {
  Tensor x = tensor({{3.0, 4.0}, {0.3, 0.4}});
  EXPECT_TENSOR(renorm(x, 2, 0, 1), Type(f32, {2, 2}), {0.6, 0.8, 0.3, 0.4}, 1e-6);
  EXPECT_TENSOR(renorm(x, kInf, 1, 2), Type(f32, {2, 2}), {2, 2, 0.2, 0.2}, 1e-6);
  EXPECT_ERROR(renorm(x, 0, 0, 1), ValueError, "must be positive");
  EXPECT_ERROR(renorm(Vec({1}), 2, 0, 1), ValueError, "at least 2 dims");
}

}  // namespace
}  // namespace hammock
