#include <algorithm>
#include <numeric>

#include "hammock/error.h"
#include "ops/expect.h"

namespace hammock {
namespace {

double Mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double Variance(const std::vector<double>& x) {
  double mean = Mean(x), sum = 0;
  for (double v : x) sum += (v - mean) * (v - mean);
  return sum / static_cast<double>(x.size());
}

TEST(Random, SeedsRepeatAndCallsDiffer) {
  manual_seed(3);
  auto a = rand({8}).to_vector<float>(), b = rand({8}).to_vector<float>();
  manual_seed(3);
  EXPECT_EQ(rand({8}).to_vector<float>(), a);
  EXPECT_EQ(rand({8}).to_vector<float>(), b);
  EXPECT_NE(a, b);
  Generator mine(3);
  EXPECT_EQ(rand({8}, std::nullopt, Device(), mine).to_vector<float>(), a);
}

TEST(Random, AnotherSeedDoesNotRecompile) {
  manual_seed(1);
  randn({16}).to_vector<float>();
  int64_t before = Compiles();
  manual_seed(2);
  randn({16}).to_vector<float>();
  EXPECT_EQ(Compiles(), before);
}

TEST(Random, ReadingBeforeOrAfterAgrees) {
  manual_seed(5);
  Tensor y = rand({4});
  Tensor z = y * 2;
  auto doubled = z.to_vector<float>(), once = y.to_vector<float>();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(doubled[i], 2 * once[i]);
}

TEST(Random, UniformsFillTheUnitInterval) {
  manual_seed(11);
  for (DType dtype : {f16, bf16, f32, f64}) {
    auto x = to(rand({20000}, dtype), f64).to_vector<double>();
    EXPECT_GE(*std::min_element(x.begin(), x.end()), 0.0);
    EXPECT_LT(*std::max_element(x.begin(), x.end()), 1.0);
    EXPECT_NEAR(Mean(x), 0.5, 0.01) << NameOf(dtype);
    EXPECT_NEAR(Variance(x), 1.0 / 12, 0.01) << NameOf(dtype);
  }
  EXPECT_THROW(rand({2}, i64), TypeError);
}

TEST(Random, NormalsHaveTheirMoments) {
  manual_seed(12);
  for (DType dtype : {f32, f64, bf16}) {
    auto x = to(randn({20000}, dtype), f64).to_vector<double>();
    EXPECT_NEAR(Mean(x), 0, 0.03) << NameOf(dtype);
    EXPECT_NEAR(Variance(x), 1, 0.05) << NameOf(dtype);
    EXPECT_TRUE(std::all_of(x.begin(), x.end(), [](double v) { return std::isfinite(v); }));
  }
  auto y = normal(3.0, 0.5, {20000}).to_vector<float>();
  EXPECT_NEAR(Mean({y.begin(), y.end()}), 3, 0.03);
  EXPECT_NEAR(Variance({y.begin(), y.end()}), 0.25, 0.02);
  EXPECT_ERROR(normal(0.0, -1.0, {2}), ValueError, "std -1");
}

TEST(Random, IntegersStayInTheirRange) {
  manual_seed(13);
  auto x = randint(-3, 4, {5000}).to_vector<int64_t>();
  std::vector<int> seen(7);
  for (int64_t v : x) {
    ASSERT_GE(v, -3);
    ASSERT_LT(v, 4);
    ++seen[v + 3];
  }
  for (int count : seen) EXPECT_NEAR(count, 5000 / 7.0, 130);
  EXPECT_EQ(randint(5, {2, 2}, u8).shape(), Type(u8, {2, 2}));
  int64_t wide = randint(0, int64_t{1} << 62, {1000}).to_vector<int64_t>()[7];
  EXPECT_GE(wide, 0);
  EXPECT_ERROR(randint(3, 3, {1}), ValueError, "low 3 must be below high 3");
  EXPECT_ERROR(randint(0, 300, {1}, u8), ValueError, "u8 does not hold");
}

TEST(Random, PermutationsHoldEveryIndexOnce) {
  manual_seed(14);
  auto x = randperm(100).to_vector<int64_t>();
  EXPECT_FALSE(std::is_sorted(x.begin(), x.end()));
  std::sort(x.begin(), x.end());
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(x[i], i);
  EXPECT_TENSOR(randperm(0), Type(i64, {0}), {});
}

TEST(Random, BernoulliFollowsItsProbabilities) {
  manual_seed(15);
  auto x = bernoulli(full({5000}, 0.3)).to_vector<float>();
  EXPECT_NEAR(Mean({x.begin(), x.end()}), 0.3, 0.03);
  EXPECT_TENSOR(bernoulli(Vec({0, 1})), Type(f32, {2}), {0, 1});
  EXPECT_TENSOR(bernoulli(Vec({5, 5}, i64), 1.0), Type(i64, {2}), {1, 1});
  EXPECT_ERROR(bernoulli(Vec({1}), 2.0), ValueError, "p 2 must be in [0, 1]");
}

TEST(Random, InPlaceFormsWrite) {
  manual_seed(16);
  Tensor x = zeros({5000});
  uniform_(x, 2, 4);
  auto u = x.to_vector<float>();
  EXPECT_NEAR(Mean({u.begin(), u.end()}), 3, 0.05);
  normal_(x, 1, 2);
  auto n = x.to_vector<float>();
  EXPECT_NEAR(Mean({n.begin(), n.end()}), 1, 0.12);
  exponential_(x, 2);
  auto e = x.to_vector<float>();
  EXPECT_NEAR(Mean({e.begin(), e.end()}), 0.5, 0.03);
  Tensor i = zeros({100}, u8);
  random_(i);
  auto values = i.to_vector<uint8_t>();
  EXPECT_GT(*std::max_element(values.begin(), values.end()), 200);
  random_(i, 3, 5);
  for (uint8_t v : i.to_vector<uint8_t>()) EXPECT_TRUE(v == 3 || v == 4);
  bernoulli_(i, 1.0);
  EXPECT_EQ(i.to_vector<uint8_t>()[0], 1);
  EXPECT_THROW(uniform_(i), TypeError);
}

}  // namespace
}  // namespace hammock
