#include <algorithm>
#include <set>

#include "hammock/autograd.h"
#include "hammock/error.h"
#include "ops/expect.h"

namespace hammock {
namespace {

/// How often each class was drawn, as a share.
std::vector<double> Shares(const Tensor& drawn, int64_t classes) {
  std::vector<double> shares(static_cast<size_t>(classes));
  std::vector<int64_t> all = drawn.to_vector<int64_t>();
  for (int64_t i : all) shares.at(static_cast<size_t>(i)) += 1.0 / static_cast<double>(all.size());
  return shares;
}

TEST(Multinomial, DrawsInProportion) {
  manual_seed(1);
  std::vector<double> weights = {1, 0, 3, 4, 2};
  std::vector<double> shares = Shares(multinomial(tensor(weights), 50000, true), 5);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(shares[i], weights[i] / 10, 0.01) << i;
  EXPECT_EQ(shares[1], 0);
}

TEST(Multinomial, FirstDrawsWithoutReplacementAreInProportionToo) {
  manual_seed(2);
  Tensor weights = tensor({1.0, 0.0, 3.0, 4.0, 2.0}).expand(20000, 5);
  Tensor drawn = multinomial(weights, 2);
  std::vector<double> shares = Shares(drawn.select(1, 0), 5);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(shares[i], weights[0][i].item<double>() / 10, 0.015);
  EXPECT_EQ((drawn.select(1, 0) == drawn.select(1, 1)).sum().item<int64_t>(), 0);
}

TEST(Multinomial, WithoutReplacementDrawsEachOnce) {
  manual_seed(3);
  std::vector<int64_t> drawn = multinomial(rand({100}) + 0.01, 100).to_vector<int64_t>();
  EXPECT_EQ(std::set<int64_t>(drawn.begin(), drawn.end()).size(), 100u);
}

TEST(Multinomial, RowsAreIndependent) {
  Tensor weights = tensor({{1.0, 0.0, 0.0}, {0.0, 0.0, 2.0}});
  EXPECT_TENSOR(multinomial(weights, 3, true), Type(i64, {2, 3}), {0, 0, 0, 2, 2, 2});
  EXPECT_TENSOR(weights.multinomial(1), Type(i64, {2, 1}), {0, 2});
}

TEST(Multinomial, DrawsTheSameOnEveryDevice) {
  for (bool replacement : {true, false}) {
    std::vector<std::vector<int64_t>> drawn;
    for (const char* device : {"cpu", "reference"}) {
      Generator generator(7);
      Tensor weights = rand({4, 1000}, f32, device, Generator(3));
      drawn.push_back(multinomial(weights, 400, replacement, generator).to_vector<int64_t>());
    }
    EXPECT_EQ(drawn[0], drawn[1]) << replacement;
  }
}

TEST(Multinomial, AnotherSeedDoesNotRecompile) {
  Tensor weights = rand({50});
  weights.host();
  manual_seed(1);
  auto first = multinomial(weights, 5, true).to_vector<int64_t>();
  int64_t before = Compiles();
  manual_seed(2);
  EXPECT_NE(multinomial(weights, 5, true).to_vector<int64_t>(), first);
  EXPECT_EQ(Compiles(), before);
}

TEST(Multinomial, RefusesWhatItCannotDraw) {
  EXPECT_ERROR(multinomial(ones({3}, i64), 1), TypeError, "multinomial");
  EXPECT_ERROR(multinomial(ones({3}), 4), ValueError, "num_samples 4");
  EXPECT_ERROR(multinomial(ones({3}), 0), ValueError, "num_samples 0");
  EXPECT_ERROR(multinomial(ones({1, 1, 3}), 1), ValueError, "1 or 2 dims");
  EXPECT_ERROR(multinomial(tensor({1.0, -1.0}), 1, true).host(), Error, "not negative");
  EXPECT_ERROR(multinomial(tensor({1.0, NAN}), 1, true).host(), Error, "finite");
  EXPECT_ERROR(multinomial(zeros({3}), 1, true).host(), Error, "above zero");
  EXPECT_ERROR(multinomial(tensor({1.0, 0.0}), 2).host(), Error, "above zero");
}

TEST(Poisson, HasTheMomentsOfItsRate) {
  manual_seed(4);
  for (double rate : {0.0, 0.3, 4.0, 9.99, 10.0, 35.0, 1000.0}) {
    Tensor x = poisson(full({40000}, rate, f64));
    double mean = x.mean().item<double>(), deviation = std::sqrt(rate / 40000);
    EXPECT_NEAR(mean, rate, 5 * deviation) << rate;
    EXPECT_NEAR(x.var(0).item<double>(), rate, 0.05 * rate) << rate;
    EXPECT_TRUE((x == x.floor()).all().item<bool>());
    EXPECT_GE(x.min().item<double>(), 0);
  }
}

TEST(Poisson, KeepsTheDTypeAndRefusesNegativeRates) {
  EXPECT_EQ(poisson(ones({2, 3}, f16)).shape(), Type(f16, {2, 3}));
  EXPECT_ERROR(poisson(tensor({-1.0})).host(), Error, "rates must be finite and not negative");
  EXPECT_THROW(poisson(ones({2}, i64)), TypeError);
}

TEST(GumbelSoftmax, IsADistributionWithAGradient) {
  manual_seed(5);
  Tensor logits = zeros({1000, 4}).requires_grad_();
  Tensor soft = gumbel_softmax(logits, 0.5);
  EXPECT_LT((soft.sum(1) - 1).abs().max().item<float>(), 1e-5);
  (soft * arange(4)).sum().backward();
  EXPECT_GT(logits.grad().abs().sum().item<float>(), 0);
}

TEST(GumbelSoftmax, HardDrawsInProportion) {
  manual_seed(6);
  Tensor logits = log(tensor({0.1, 0.2, 0.7})).expand(20000, 3);
  Tensor hard = gumbel_softmax(logits, 1, true);
  Tensor shares = hard.mean(0);
  EXPECT_TENSOR(shares, Type(f32, {3}), {0.1, 0.2, 0.7}, 0.015);
  EXPECT_LT((hard.sum(1) - 1).abs().max().item<float>(), 1e-5);
  EXPECT_ERROR(gumbel_softmax(logits, 0), ValueError, "tau 0 must be above 0");
}

TEST(Sampling, InPlaceDrawsHaveTheirDistributions) {
  manual_seed(5);
  Tensor x = zeros({20000}, f64);
  geometric_(x, 0.25);
  EXPECT_NEAR(x.mean().item<double>(), 4, 0.15);
  EXPECT_EQ(x.min().item<double>(), 1);
  log_normal_(x, 0.5, 0.25);
  EXPECT_NEAR(log(x).mean().item<double>(), 0.5, 0.02);
  EXPECT_NEAR(log(x).std().item<double>(), 0.25, 0.02);
  cauchy_(x, 3, 2);
  EXPECT_NEAR(x.median().item<double>(), 3, 0.15);
  EXPECT_NEAR(lt(abs(x - 3.0), 2.0).to(f64).mean().item<double>(), 0.5, 0.02);
  EXPECT_ERROR(geometric_(x, 1.0), ValueError, "p 1 must be in (0, 1)");
  EXPECT_ERROR(cauchy_(x, 0, 0), ValueError, "sigma 0 must be above 0");
}

}  // namespace
}  // namespace hammock
