#include "hammock/ir/node.h"
#include "ops/expect.h"

namespace hammock {
namespace {

TEST(Softmax, SumsToOneWithoutOverflow) {
  EXPECT_TENSOR(softmax(Vec({1000, 1000}), 0), Type(f32, {2}), {0.5, 0.5});
  EXPECT_TENSOR(softmax(tensor({{0.0, 0.0}, {0.0, kInf}}), 1), Type(f32, {2, 2}),
                {0.5, 0.5, kNan, kNan});
  EXPECT_TENSOR(log_softmax(Vec({0, -1000}), 0), Type(f32, {2}), {0, -1000});
  EXPECT_TENSOR(softmin(Vec({0, std::log(3.0)}), 0), Type(f32, {2}), {0.75, 0.25}, 1e-6);
  EXPECT_TENSOR(softmax(tensor(3.0), 0), Type(f32, {}), {1});
  EXPECT_TENSOR(softmax(zeros({2, 0}), 1), Type(f32, {2, 0}), {});
}

TEST(Softmax, DTypes) {
  EXPECT_TENSOR(softmax(Vec({0, 0}, f16), 0, f32), Type(f32, {2}), {0.5, 0.5});
  EXPECT_TENSOR(softmax(Vec({1, 1}, i64), 0, f64), Type(f64, {2}), {0.5, 0.5});
  EXPECT_ERROR(softmax(Vec({1, 1}, i64), 0), TypeError, "softmax: needs a floating dtype");
  EXPECT_ERROR(softmax(Vec({1, 1}), 1), ValueError, "dim 1 is out of range");
}

TEST(Softmax, IsOneNodeWhenTraced) {
  Tensor y = softmax(zeros({2, 3}), -1);
  EXPECT_EQ(std::string(y.value().node->op().name()), "softmax");
}

TEST(LayerNorm, NormalisesScalesAndShifts) {
  Tensor x = tensor({{1.0, 3.0}, {-2.0, 2.0}});
  EXPECT_TENSOR(layer_norm(x, {2}, std::nullopt, std::nullopt, 0), Type(f32, {2, 2}),
                {-1, 1, -1, 1}, 1e-6);
  EXPECT_TENSOR(layer_norm(x, {2}, Vec({2, 2}), Vec({1, 1}), 0), Type(f32, {2, 2}), {-1, 3, -1, 3},
                1e-6);
  auto [y, mean, scale] = native_layer_norm(x, {2}, std::nullopt, std::nullopt, 0);
  EXPECT_TENSOR(mean, Type(f32, {2, 1}), {2, 0});
  EXPECT_TENSOR(scale, Type(f32, {2, 1}), {1, 0.5}, 1e-6);
  EXPECT_ERROR(layer_norm(x, {3}), ValueError, "normalized_shape=[3]");
  EXPECT_ERROR(layer_norm(x, {2}, Vec({1})), ValueError, "weight and bias");
}

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  EXPECT_TENSOR(rms_norm(Vec({1, 7}), {2}, Vec({1, 2}), 0), Type(f32, {2}), {0.2, 2.8}, 1e-6);
}

TEST(Losses, MeanSquareAndAbsolute) {
  Tensor x = Vec({1, 2}), y = Vec({2, 4});
  EXPECT_TENSOR(mse_loss(x, y), Type(f32, {}), {2.5});
  EXPECT_TENSOR(l1_loss(x, y, "sum"), Type(f32, {}), {3});
  EXPECT_TENSOR(mse_loss(x, y, "none"), Type(f32, {2}), {1, 4});
  EXPECT_ERROR(mse_loss(x, y, "avg"), ValueError, "reduction must be none, mean or sum");
}

TEST(Losses, CrossEntropyOfClasses) {
  Tensor x = tensor({{0.0, 0.0}, {0.0, std::log(3.0)}});
  Tensor target = Vec({0, 1}, i64);
  double first = std::log(2.0), second = std::log(4.0 / 3);
  EXPECT_TENSOR(cross_entropy(x, target, std::nullopt, -100, "none"), Type(f32, {2}),
                {first, second}, 1e-6);
  EXPECT_TENSOR(cross_entropy(x, target, Vec({1, 3})), Type(f32, {}), {(first + 3 * second) / 4},
                1e-6);
  EXPECT_TENSOR(cross_entropy(x, Vec({0, -100}, i64)), Type(f32, {}), {first}, 1e-6);
  EXPECT_TENSOR(cross_entropy(x, tensor({{1.0, 0.0}, {0.0, 1.0}})), Type(f32, {}),
                {(first + second) / 2}, 1e-6);
  EXPECT_TENSOR(nll_loss(log_softmax(x, 1), target, std::nullopt, -100, "sum"), Type(f32, {}),
                {first + second}, 1e-6);
  EXPECT_ERROR(cross_entropy(x, Vec({0, 1, 0}, i64)), ValueError, "cross_entropy: target");
  EXPECT_ERROR(cross_entropy(x, Vec({0, 2}, i64)).host(), Error, "out of bounds");
}

}  // namespace
}  // namespace hammock
