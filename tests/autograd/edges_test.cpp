// Gradients where a formula divides by zero or chooses a branch: PyTorch's values.

#include <gtest/gtest.h>

#include "hammock/hammock.h"
#include "ops/expect.h"

namespace hammock {
namespace {

/// The gradient of the sum of `fn` at `values`.
Tensor GradientAt(std::vector<double> values, Tensor (*fn)(const Tensor&)) {
  Tensor x = tensor(values, f64).requires_grad_();
  sum(fn(x)).backward();
  return x.grad();
}

TEST(GradientEdges, BinaryCrossEntropyIsBoundedForTheInput) {
  Tensor x = Vec({0, 1, 0, 1, 0.5}, f64).requires_grad_();
  Tensor target = Vec({0, 1, 1, 0, 1}, f64);
  binary_cross_entropy(x, target, std::nullopt, "sum").backward();
  EXPECT_TENSOR(x.grad(), Type(f64, {5}), {0, 0, -1e12, 1e12, -2}, 1e-3);
  Tensor weight = Vec({2, 2, 2, 2, 4}, f64);
  x.set_grad(Tensor());
  binary_cross_entropy(x, target, weight, "mean").backward();
  EXPECT_TENSOR(x.grad(), Type(f64, {5}), {0, 0, -4e11, 4e11, -1.6}, 1e-3);
}

TEST(GradientEdges, BinaryCrossEntropyIsNotForTheTarget) {
  Tensor target = Vec({0, 1, 0.5}, f64).requires_grad_();
  binary_cross_entropy(Vec({0, 1, 0.5}, f64), target, std::nullopt, "sum").backward();
  EXPECT_TENSOR(target.grad(), Type(f64, {3}), {kInf, -kInf, 0}, 1e-9);
}

TEST(GradientEdges, DetOfASingularMatrixHasTheAdjugate) {
  Tensor a = tensor({{1.0, 2.0}, {2.0, 4.0}}, f64).requires_grad_();
  linalg_det(a).backward();
  EXPECT_TENSOR(a.grad(), Type(f64, {2, 2}), {4, -2, -2, 1}, 1e-9);
  Tensor b = zeros({3, 3}, f64).requires_grad_();
  linalg_det(b).backward();
  EXPECT_TENSOR(b.grad(), Type(f64, {3, 3}), std::vector<double>(9), 1e-9);
  std::vector<double> values{0, 2, 3, 4, 1, 0, 0, 0};
  Tensor c = tensor(values, Dims{2, 2, 2}, f64).requires_grad_();
  linalg_det(c).backward(Vec({1, 10}, f64));
  EXPECT_TENSOR(c.grad(), Type(f64, {2, 2, 2}), {4, -3, -2, 0, 0, 0, 0, 10}, 1e-9);
}

TEST(GradientEdges, XlogyHasTheLogarithmAtZero) {
  Tensor x = Vec({0, 0, 0, 2}, f64).requires_grad_(), y = Vec({1, 2, 0, 4}, f64).requires_grad_();
  sum(xlogy(x, y)).backward();
  EXPECT_TENSOR(x.grad(), Type(f64, {4}), {0, std::log(2.0), 0, std::log(4.0)}, 1e-12);
  EXPECT_TENSOR(y.grad(), Type(f64, {4}), {0, 0, kNan, 0.5}, 1e-12);
}

TEST(GradientEdges, NormsAndDistancesOfZeroHaveNone) {
  EXPECT_TENSOR(GradientAt({0, 0}, [](const Tensor& x) { return norm(x); }), Type(f64, {2}),
                {0, 0});
  auto distances = [](const Tensor& x) { return cdist(reshape(x, {1, 2}), zeros({1, 2}, f64)); };
  EXPECT_TENSOR(GradientAt({0, 0}, distances), Type(f64, {2}), {0, 0}, 1e-12);
}

TEST(GradientEdges, RootsAndPowersOfZero) {
  EXPECT_TENSOR(GradientAt({0}, [](const Tensor& x) { return sqrt(x); }), Type(f64, {1}), {kInf});
  auto powers = [](const Tensor& x) { return pow(x, Vec({0, 0.5, 1, 2}, f64)); };
  EXPECT_TENSOR(GradientAt({0, 0, 0, 0}, powers), Type(f64, {4}), {0, kInf, 1, 0}, 1e-12);
  auto exponents = [](const Tensor& x) { return pow(zeros({3}, f64), x); };
  EXPECT_TENSOR(GradientAt({0, 2, -1}, exponents), Type(f64, {3}), {0, 0, -kInf}, 1e-12);
}

TEST(GradientEdges, AnglesAndLengthsOfThePointZero) {
  auto angle = [](const Tensor& x) { return atan2(x, zeros({1}, f64)); };
  EXPECT_TENSOR(GradientAt({0}, angle), Type(f64, {1}), {kNan});
  auto length = [](const Tensor& x) { return hypot(x, zeros({1}, f64)); };
  EXPECT_TENSOR(GradientAt({0}, length), Type(f64, {1}), {kNan});
}

TEST(GradientEdges, DeviationsOfWhatDoesNotDeviate) {
  auto deviation = [](const Tensor& x) { return CallOp("std", {x}).ToTensor(); };
  EXPECT_TENSOR(GradientAt({3, 3, 3}, deviation), Type(f64, {3}), {0, 0, 0}, 1e-12);
  EXPECT_TENSOR(GradientAt({3}, deviation), Type(f64, {1}), {kNan});
}

}  // namespace
}  // namespace hammock
