#include "hammock/nn/init.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock::nn::init {
namespace {

struct Moments {
  double mean, deviation, low, high;
};
Moments Of(const Tensor& x) {
  return {mean(x).item<double>(), std(x).item<double>(), min(x).item<double>(),
          max(x).item<double>()};
}

TEST(Init, UniformAndNormalHaveTheirScale) {
  Tensor weight = empty({200, 100});
  double bound = std::sqrt(6.0 / 300);
  Moments xavier = Of(xavier_uniform_(weight));
  EXPECT_NEAR(xavier.high, bound, 1e-3);
  EXPECT_NEAR(xavier.low, -bound, 1e-3);
  EXPECT_NEAR(Of(xavier_normal_(weight)).deviation, std::sqrt(2.0 / 300), 2e-3);
  EXPECT_NEAR(Of(kaiming_normal_(weight, 0, "fan_out", "relu")).deviation, std::sqrt(2.0 / 200),
              2e-3);
  EXPECT_NEAR(Of(kaiming_uniform_(weight, std::sqrt(5.0))).high, 0.1, 1e-3);
  Moments normal = Of(init::normal_(weight, 2, 0.5));
  EXPECT_NEAR(normal.mean, 2, 0.02);
  EXPECT_NEAR(normal.deviation, 0.5, 0.02);
  Moments cut = Of(trunc_normal_(weight, 0, 1, -0.5, 1));
  EXPECT_GE(cut.low, -0.5);
  EXPECT_LE(cut.high, 1);
  EXPECT_NEAR(cut.mean, 0.207, 0.02);
}

TEST(Init, OrthogonalMatricesKeepLengths) {
  for (const Dims& sizes : {Dims{5, 3}, Dims{3, 5}, Dims{4, 2, 3}}) {
    Tensor weight = reshape(orthogonal_(empty(sizes), 2), {sizes[0], -1});
    bool tall = weight.size(0) > weight.size(1);
    Tensor product =
        tall ? matmul(transpose(weight, 0, 1), weight) : matmul(weight, transpose(weight, 0, 1));
    EXPECT_TENSOR_NEAR(product, eye(product.size(0)) * 4.0, 1e-5);
  }
}

TEST(Init, DiracConvolutionsKeepTheirInput) {
  Tensor weight = dirac_(empty({4, 2, 3, 3}), 2);
  Tensor x = randn({1, 4, 5, 5});
  EXPECT_TENSOR_EQ(conv2d(x, weight, std::nullopt, {1}, {1}, {1}, 2), x);
}

TEST(Init, SparseColumnsHaveTheirShareOfZeros) {
  Tensor zeros = sparse_(empty({10, 6}), 0.33).eq(0).to(DType::kF32).sum(Dims{0});
  EXPECT_TENSOR_EQ(zeros, full({6}, 4.0));
}

TEST(Init, PlainValues) {
  EXPECT_TENSOR_EQ(eye_(empty({2, 3})), eye(2, 3));
  EXPECT_TENSOR_EQ(constant_(empty({2}), 3), full({2}, 3.0));
  EXPECT_EQ(calculate_gain("tanh"), 5.0 / 3);
  EXPECT_EQ(calculate_fan_in_and_fan_out(empty({4, 3, 2, 2})),
            (std::pair<int64_t, int64_t>(12, 16)));
  EXPECT_THROW_MESSAGE(calculate_fan_in_and_fan_out(empty({4})), ValueError, "fewer than 2 dims");
  EXPECT_THROW_MESSAGE(calculate_gain("other"), ValueError, "'other' is not known");
}

TEST(Init, LeavesNoHistory) {
  Tensor weight = empty({2, 2}).requires_grad_();
  xavier_uniform_(weight);
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_TRUE(weight.requires_grad());
}

}  // namespace
}  // namespace hammock::nn::init
