#include "hammock/error.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Tensor X() { return Vec({-4, -1, 0, 0.5, 3, kNan}); }

template <class F>
std::vector<double> Each(F&& f) {
  std::vector<double> result;
  for (double x : {-4.0, -1.0, 0.0, 0.5, 3.0}) result.push_back(f(x));
  result.push_back(kNan);
  return result;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Activations, MatchTheirFormulas) {
  Shape type = Type(f32, {6});
  EXPECT_TENSOR(relu(X()), type, Each([](double x) { return std::max(x, 0.0); }), 1e-6);
  EXPECT_TENSOR(relu6(X()), type, Each([](double x) { return std::clamp(x, 0.0, 6.0); }), 1e-6);
  EXPECT_TENSOR(silu(X()), type, Each([](double x) { return x * Sigmoid(x); }), 1e-6);
  EXPECT_TENSOR(gelu(X()), type,
                Each([](double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }), 1e-6);
  EXPECT_TENSOR(gelu(X(), "tanh"), type, Each([](double x) {
                  double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
                  return 0.5 * x * (1 + std::tanh(inner));
                }),
                1e-6);
  EXPECT_TENSOR(mish(X()), type,
                Each([](double x) { return x * std::tanh(std::log1p(std::exp(x))); }), 1e-6);
  EXPECT_TENSOR(softplus(X()), type, Each([](double x) { return std::log1p(std::exp(x)); }), 1e-6);
  EXPECT_TENSOR(elu(X(), 2.0), type, Each([](double x) { return x > 0 ? x : 2 * std::expm1(x); }),
                1e-6);
  EXPECT_TENSOR(celu(X(), 2.0), type,
                Each([](double x) { return x > 0 ? x : 2 * std::expm1(x / 2); }), 1e-6);
  EXPECT_TENSOR(log_sigmoid(X()), type, Each([](double x) { return std::log(Sigmoid(x)); }), 1e-6);
  EXPECT_TENSOR(hardswish(X()), type,
                Each([](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }), 1e-6);
  EXPECT_TENSOR(hardsigmoid(X()), type,
                Each([](double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; }), 1e-6);
  EXPECT_TENSOR(leaky_relu(X(), 0.5), type, Each([](double x) { return x > 0 ? x : x / 2; }), 1e-6);
  EXPECT_TENSOR(softsign(X()), type, Each([](double x) { return x / (1 + std::abs(x)); }), 1e-6);
  EXPECT_TENSOR(tanhshrink(X()), type, Each([](double x) { return x - std::tanh(x); }), 1e-6);
  EXPECT_TENSOR(threshold(X(), 0.25, -7), type, Each([](double x) { return x <= 0.25 ? -7 : x; }),
                1e-6);
  EXPECT_TENSOR(softshrink(Vec({-2, 0.5, 3, kNan})), Type(f32, {4}), {-1.5, 0, 2.5, 0});
  EXPECT_TENSOR(hardtanh(X(), 0.5, -0.5), type, Each([](double) { return -0.5; }), 1e-6);
  EXPECT_TENSOR(hardshrink(X(), 1.0), type, Each([](double x) { return std::abs(x) <= 1 ? 0 : x; }),
                1e-6);
}

TEST(Activations, StayFiniteFarOut) {
  Tensor far = Vec({-1000, 1000});
  EXPECT_TENSOR(softplus(far), Type(f32, {2}), {0, 1000});
  EXPECT_TENSOR(log_sigmoid(far), Type(f32, {2}), {-1000, 0}, 1e-6);
  EXPECT_TENSOR(mish(far), Type(f32, {2}), {-0.0, 1000});
  EXPECT_TENSOR(elu(far), Type(f32, {2}), {-1, 1000});
  EXPECT_TENSOR(gelu(Vec({-kInf, -1000, 1000, kInf})), Type(f32, {4}), {kNan, -0.0, 1000, kInf});
  EXPECT_TENSOR(gelu(Vec({-kInf, -1000, 1000, kInf}, f64)), Type(f64, {4}),
                {kNan, -0.0, 1000, kInf});
}

TEST(Activations, HalfPrecisionRoundsOnce) {
  Tensor x = Vec({1.1, -0.7}, bf16);
  std::vector<double> expected;
  for (float v : to(x, f32).to_vector<float>()) {
    expected.push_back(BFloat16(static_cast<float>(v * Sigmoid(v))));
  }
  EXPECT_TENSOR(silu(x), Type(bf16, {2}), expected);
  EXPECT_TENSOR(leaky_relu(tensor(-1.0, bf16), 0.01), Type(bf16, {}), {BFloat16(-0.01f)});
}

TEST(Activations, IntegersOnlyWherePyTorchHasThem) {
  EXPECT_TENSOR(relu(Vec({-1, 2}, i64)), Type(i64, {2}), {0, 2});
  EXPECT_TENSOR(hardtanh(Vec({-5, 2}, i64)), Type(i64, {2}), {-1, 1});
  EXPECT_TENSOR(softsign(Vec({1}, i64)), Type(f32, {1}), {0.5});
  EXPECT_THROW(silu(Vec({1}, i64)), TypeError);
  EXPECT_THROW(leaky_relu(Vec({1}, i64)), TypeError);
  EXPECT_THROW(relu(Vec({1}, boolean)), TypeError);
}

TEST(Activations, PreluHasOneWeightOrOnePerChannel) {
  Tensor x = tensor({{-1.0, -2.0}, {3.0, -4.0}});
  EXPECT_TENSOR(prelu(x, Vec({0.5})), Type(f32, {2, 2}), {-0.5, -1, 3, -2});
  EXPECT_TENSOR(prelu(x, Vec({0.5, 0.25})), Type(f32, {2, 2}), {-0.5, -0.5, 3, -1});
  EXPECT_ERROR(prelu(x, Vec({1, 2, 3})), ValueError, "one per channel: 2");
}

TEST(Activations, GluHalvesADim) {
  Tensor x = tensor({{1.0, 2.0, 0.0, 0.0}});
  EXPECT_TENSOR(glu(x), Type(f32, {1, 2}), {0.5, 1});
  EXPECT_ERROR(glu(zeros({2, 3})), ValueError, "odd size");
}

TEST(Activations, ArgumentsAreChecked) {
  EXPECT_ERROR(gelu(X(), "fast"), ValueError, "approximate 'fast'");
  EXPECT_ERROR(celu(X(), 0), ValueError, "alpha must not be 0");
  EXPECT_ERROR(softshrink(X(), -1), ValueError, "lambd -1");
  EXPECT_ERROR(hardtanh(Vec({1}, u8), -1, 1), ValueError, "min_val -1");
  EXPECT_ERROR(dropout(X(), 1.5), ValueError, "p 1.5");
}

TEST(Activations, DropoutScalesWhatItKeeps) {
  manual_seed(1);
  Tensor x = ones({1000});
  std::vector<float> y = dropout(x, 0.25).to_vector<float>();
  int64_t kept = 0;
  for (float v : y) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4.0f / 3) < 1e-6f) << v;
    kept += v != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept), 750, 60);
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x));
  EXPECT_TENSOR(dropout(Vec({1, 2}), 1.0), Type(f32, {2}), {0, 0});
  EXPECT_TRUE(dropout(x, 0.0).is_same(x));
}

TEST(Activations, AnotherSlopeDoesNotRecompile) {
  Tensor x = Vec({-2});
  EXPECT_EQ(leaky_relu(x, 0.5).item<float>(), -1.0f);
  int64_t before = Compiles();
  EXPECT_EQ(leaky_relu(x, 0.25).item<float>(), -0.5f);
  EXPECT_EQ(leaky_relu(x, 0.0).item<float>(), 0.0f);
  EXPECT_EQ(Compiles(), before);
}

}  // namespace
}  // namespace hammock
