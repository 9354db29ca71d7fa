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
  // One number has no variance: its slope is infinite, or that of nothing.
  for (double value : {3.0, kNan}) {
    Tensor x = tensor(value, f64).requires_grad_();
    CallOp("var", {x}).ToTensor().backward();
    EXPECT_TENSOR(x.grad(), Type(f64, {}), {std::isnan(value) ? kInf : kNan});
  }
}

TEST(GradientEdges, ActivationsAtKinksAndNan) {
  std::vector<double> values = {kNan, kInf, -kInf, 0.5, -0.5, 3, -3, 1, -1};
  auto shrink = [](const Tensor& x) { return hardshrink(x); };
  EXPECT_TENSOR(GradientAt(values, shrink), Type(f64, {9}), {0, 1, 1, 0, 0, 1, 1, 1, 1});
  auto swish = [](const Tensor& x) { return hardswish(x); };
  EXPECT_TENSOR(GradientAt(values, swish), Type(f64, {9}),
                {kNan, 1, 0, 2.0 / 3, 1.0 / 3, 1, 0, 5.0 / 6, 1.0 / 6}, 1e-12);
  // The side that is not taken does not matter, whatever its slope is.
  auto prelu_of = [](const Tensor& x) { return prelu(x, tensor({kNan}, f64)); };
  EXPECT_TENSOR(GradientAt({2, -2}, prelu_of), Type(f64, {2}), {1, kNan});
  Tensor weight = tensor({0.25}, f64).requires_grad_();
  sum(prelu(Vec({kInf, 2, -3}, f64), weight)).backward();
  EXPECT_TENSOR(weight.grad(), Type(f64, {1}), {-3});
}

TEST(GradientEdges, LogitEndsWithItsDomain) {
  std::vector<double> values = {0, 1, 0.5, -0.1, 1.1, kNan};
  auto plain = [](const Tensor& x) { return logit(x); };
  EXPECT_TENSOR(GradientAt(values, plain), Type(f64, {6}), {kInf, kInf, 4, kNan, kNan, kNan});
  auto clamped = [](const Tensor& x) { return logit(x, 0.25); };
  EXPECT_TENSOR(GradientAt({0, 1, 0.5, 0.25}, clamped), Type(f64, {4}), {0, 0, 4, 1 / 0.1875},
                1e-12);
}

TEST(GradientEdges, SlopesOverflowBeforeTheyAreScaled) {
  Tensor x = tensor({3e38f, 2.0f}).requires_grad_(), y = tensor({3e38f, 2.0f}).requires_grad_();
  sum(square(x) * 0.25).backward();
  sum(pow(y, 2) * 0.25).backward();
  EXPECT_TENSOR(x.grad(), Type(f32, {2}), {kInf, 1});
  EXPECT_TENSOR(y.grad(), Type(f32, {2}), {kInf, 1});
}

TEST(GradientEdges, LossesOfInfiniteDistanceAreLinear) {
  auto huber = [](const Tensor& x) { return huber_loss(x, zeros({4}, f64), "sum"); };
  EXPECT_TENSOR(GradientAt({kInf, -kInf, 0.5, 1}, huber), Type(f64, {4}), {1, -1, 0.5, 1}, 1e-12);
  auto smooth = [](const Tensor& x) { return smooth_l1_loss(x, zeros({4}, f64), "sum"); };
  EXPECT_TENSOR(GradientAt({kInf, -kInf, 0.5, 1}, smooth), Type(f64, {4}), {1, -1, 0.5, 1}, 1e-12);
}

TEST(GradientEdges, LerpSharesByItsWeight) {
  Tensor start = Vec({kInf, 1}, f64).requires_grad_(), end = Vec({2, 2}, f64).requires_grad_();
  sum(lerp(start, end, tensor(0.25, f64))).backward();
  EXPECT_TENSOR(start.grad(), Type(f64, {2}), {0.75, 0.75}, 1e-12);
  EXPECT_TENSOR(end.grad(), Type(f64, {2}), {0.25, 0.25}, 1e-12);
}

TEST(GradientEdges, NumbersAreTakenApartAtZero) {
  auto mantissa = [](const Tensor& x) { return std::get<0>(frexp(x)); };
  EXPECT_TENSOR(GradientAt({0, 3}, mantissa), Type(f64, {2}), {1, 0.25});
  auto remainders = [](const Tensor& x) { return remainder(Vec({kInf, 7}, f64), x); };
  EXPECT_TENSOR(GradientAt({2, 2}, remainders), Type(f64, {2}), {kNan, -3});
}

TEST(GradientEdges, NanStaysWhereItIsUsed) {
  auto distances = [](const Tensor& x) { return cdist(reshape(x, {2, 2}), zeros({1, 2}, f64)); };
  EXPECT_TENSOR(GradientAt({kNan, 1, 3, 4}, distances), Type(f64, {4}), {kNan, kNan, 0.6, 0.8},
                1e-12);
  auto bounded = [](const Tensor& x) { return renorm(reshape(x, {2, 2}), 2, 0, 10); };
  EXPECT_TENSOR(GradientAt({kNan, 1, 3, 4}, bounded), Type(f64, {4}), {1, 1, 1, 1});
}

TEST(GradientEdges, PaddingHasNoGradient) {
  Tensor index = tensor({{0, 2}, {2, 1}});
  for (const Device& device : {Device("cpu"), Device("reference"), Device()}) {
    for (int64_t padding : {2, -1}) {
      Tensor weight = rand({3, 2}, f32, device).requires_grad_();
      Tensor rows = embedding(index.to(device), weight, padding);
      EXPECT_TENSOR(rows[0][1], Type(f32, {2}), weight[2].detach().to(f64).to_vector<double>());
      sum(rows * 2).backward();
      EXPECT_TENSOR(weight.grad(), Type(f32, {3, 2}), {2, 2, 2, 2, 0, 0});
    }
  }
  nn::Embedding table({.num_embeddings = 3, .embedding_dim = 2, .padding_idx = 1});
  sum(table(tensor({1, 1, 0}))).backward();
  EXPECT_TENSOR(table->weight.grad(), Type(f32, {3, 2}), {1, 1, 0, 0, 0, 0});
  EXPECT_ERROR(embedding(index, rand({3, 2}), 3), ValueError,
               "padding_idx 3 must be one of 3 rows");
}

}  // namespace
}  // namespace hammock
