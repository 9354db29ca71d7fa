// Statistics of draws with a fixed seed, and gradients through them.

#include <gtest/gtest.h>

#include <cmath>

#include "hammock/distributions.h"
#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock::distributions {
namespace {

constexpr int64_t kDraws = 20000;

/// Mean and variance of many draws are those of the distribution, within five standard errors.
void ExpectMoments(const Distribution& distribution) {
  SCOPED_TRACE(distribution.name());
  manual_seed(7);
  Tensor draws = distribution.sample({kDraws}).to(DType::kF64);
  ASSERT_EQ(draws.size(0), kDraws);
  EXPECT_FALSE(draws.requires_grad());
  Tensor mean = draws.mean(std::vector<int64_t>{0});
  Tensor variance = square(draws - mean).mean(std::vector<int64_t>{0});
  Tensor fourth = square(square(draws - mean)).mean(std::vector<int64_t>{0});
  auto expected_mean = distribution.mean().to_vector<double>();
  auto expected_variance = distribution.variance().to_vector<double>();
  auto means = mean.to_vector<double>(), variances = variance.to_vector<double>();
  auto fourths = fourth.to_vector<double>();
  for (size_t i = 0; i < means.size(); ++i) {
    EXPECT_NEAR(means[i], expected_mean[i], 5 * std::sqrt(expected_variance[i] / kDraws)) << i;
    double error = std::sqrt((fourths[i] - variances[i] * variances[i]) / kDraws);
    EXPECT_NEAR(variances[i], expected_variance[i], 5 * error) << i;
  }
}

TEST(Draws, HaveMeanAndVariance) {
  Tensor a = tensor({0.5, 1.5, 3.0}), b = tensor({2.0, 0.7, 1.1});
  ExpectMoments(Normal(a, b));
  ExpectMoments(LogNormal(a * 0.2, b * 0.2));
  ExpectMoments(Uniform(-b, a));
  ExpectMoments(Laplace(a, b));
  ExpectMoments(Gumbel(a, b));
  ExpectMoments(Gamma(tensor({0.3, 1.0, 40.0}), b));
  ExpectMoments(Beta(a, b));
  ExpectMoments(Exponential(b));
  ExpectMoments(StudentT(tensor({6.0, 9.0, 30.0}), a, b));
  ExpectMoments(Dirichlet(stack({a, b}, 0)));
  ExpectMoments(Independent(Normal(a, b), 1));
  ExpectMoments(MultivariateNormal(tensor({1.0, 2.0}), tensor({{2.0, 0.5}, {0.5, 1.0}})));
}

TEST(Draws, OfIntegersHaveMeanAndVariance) {
  Tensor p = tensor({0.2, 0.7, 0.4});
  ExpectMoments(Bernoulli(p));
  ExpectMoments(Binomial(7, p));
  ExpectMoments(Geometric(p));
  ExpectMoments(Multinomial(6, p));
  ExpectMoments(Poisson(tensor({0.1, 3.0, 9.9, 10.1, 200.0, 1e5})));
}

TEST(Draws, OfClassesComeAsOftenAsTheyShould) {
  manual_seed(3);
  Tensor probs = tensor({{0.0, 0.25, 0.75, 0.0}, {0.5, 0.0, 0.0, 0.5}});
  Tensor draws = Categorical(probs).sample({kDraws});
  EXPECT_EQ(draws.dtype(), DType::kI64);
  EXPECT_EQ(draws.sizes(), (Dims{kDraws, 2}));
  Tensor often = one_hot(draws, 4).to(DType::kF64).mean(std::vector<int64_t>{0});
  EXPECT_TENSOR_NEAR(often.to(DType::kF32), probs, 0.02);
  EXPECT_EQ(often[0][0].item<double>() + often[0][3].item<double>(), 0);
}

TEST(Draws, CovaryAsTheyShould) {
  manual_seed(5);
  Tensor covariance = tensor({{2.0, 0.6}, {0.6, 1.0}});
  Tensor draws = MultivariateNormal(zeros({2}), covariance).sample({kDraws});
  EXPECT_TENSOR_NEAR(matmul(draws.t(), draws) / static_cast<double>(kDraws), covariance, 0.06);
}

TEST(Draws, DependOnTheSeedAlone) {
  Gamma gamma(tensor({0.5, 2.0}), 1.0);
  manual_seed(11);
  Tensor first = gamma.sample({100}), second = gamma.sample({100});
  manual_seed(11);
  EXPECT_TENSOR_EQ(gamma.sample({100}), first);
  EXPECT_NE(first.sum().item<float>(), second.sum().item<float>());
}

TEST(Draws, HaveGradients) {
  manual_seed(9);
  Tensor loc = tensor(0.5).requires_grad_(), scale = tensor(2.0).requires_grad_();
  square(Normal(loc, scale).rsample({kDraws})).mean().backward();
  // E x² = loc² + scale²
  EXPECT_NEAR(loc.grad().item<double>(), 1, 0.1);
  EXPECT_NEAR(scale.grad().item<double>(), 4, 0.15);

  Tensor concentration = tensor({0.4, 2.0, 12.0}).requires_grad_();
  Tensor rate = tensor({1.0, 2.0, 3.0}).requires_grad_();
  // E x = concentration / rate
  Gamma(concentration, rate).rsample({kDraws}).mean(std::vector<int64_t>{0}).sum().backward();
  EXPECT_TENSOR_NEAR(concentration.grad(), 1.0 / rate.detach(), 0.05);
  EXPECT_TENSOR_NEAR(rate.grad(), -concentration.detach() / square(rate.detach()), 0.05);

  Tensor a = tensor({2.0, 0.7}).requires_grad_();
  // E x = a / sum
  Dirichlet(a).rsample({kDraws}).mean(std::vector<int64_t>{0})[0].backward();
  EXPECT_TENSOR_NEAR(a.grad(), tensor({0.7 / 7.29, -2.0 / 7.29}).to(DType::kF32), 0.03);
}

TEST(Draws, TrainAVariationalPosterior) {
  manual_seed(13);
  Tensor loc = tensor(3.0).requires_grad_(), log_scale = tensor(1.0).requires_grad_();
  optim::Adam optimizer({loc, log_scale}, {.lr = 0.05});
  for (int i = 0; i < 200; ++i) {
    optimizer.zero_grad();
    kl_divergence(Normal(loc, exp(log_scale)), Normal(0.0, 0.5)).backward();
    optimizer.step();
  }
  EXPECT_NEAR(loc.item<double>(), 0, 0.05);
  EXPECT_NEAR(exp(log_scale).item<double>(), 0.5, 0.05);
}

TEST(Draws, RunOnEveryDevice) {
  Normal normal(zeros({3}, DType::kF32, Device("reference")), 1.0);
  EXPECT_EQ(normal.sample({2}).device(), Device("reference"));
  Gamma gamma(ones({3}, DType::kF32, Device("reference")), 1.0);
  EXPECT_EQ(gamma.sample({2}).sizes(), (Dims{2, 3}));
}

}  // namespace
}  // namespace hammock::distributions
