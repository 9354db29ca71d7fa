#include "hammock/error.h"

#include <limits>

#include "ops/expect.h"

namespace hammock {
namespace {

TEST(Special, LogaddexpDoesNotOverflow) {
  Tensor a = Vec({0, 1000, -kInf, kInf, kNan}), b = Vec({0, 1000, -kInf, -kInf, 0});
  EXPECT_TENSOR(logaddexp(a, b), Type(f32, {5}),
                {std::log(2.0), 1000 + std::log(2.0), -kInf, kInf, kNan}, 1e-4);
  EXPECT_TENSOR(logaddexp2(Vec({3}), Vec({3})), Type(f32, {1}), {4}, 1e-6);
  EXPECT_THROW(logaddexp(Vec({1}, i64), Vec({1}, i64)), TypeError);
}

TEST(Special, XlogyIsZeroAtZeroUnlessNan) {
  EXPECT_TENSOR(xlogy(Vec({0, 0, 2}), Vec({0, kNan, 1})), Type(f32, {3}), {0, kNan, 0});
  EXPECT_TENSOR(xlogy(Vec({2}, i64), 1), Type(f32, {1}), {0});
}

TEST(Special, SincAndLogit) {
  EXPECT_TENSOR(sinc(Vec({0, 0.5, 1})), Type(f32, {3}), {1, 2 / M_PI, 0}, 1e-6);
  EXPECT_TENSOR(logit(Vec({0.5, 1, 2})), Type(f32, {3}), {0, kInf, kNan});
  EXPECT_TENSOR(logit(Vec({0, 1}), 0.25), Type(f32, {2}), {std::log(1 / 3.0), std::log(3.0)}, 1e-6);
}

TEST(Special, LerpIsExactAtBothEnds) {
  Tensor a = Vec({0.1, 1e8}), b = Vec({0.3, -3});
  EXPECT_TENSOR(lerp(a, b, 0.0), Type(f32, {2}), {0.1f, 1e8f});
  EXPECT_TENSOR(lerp(a, b, 1.0), Type(f32, {2}), {0.3f, -3});
  EXPECT_TENSOR(lerp(Vec({0, 10}), Vec({10, 20}), Vec({0.5, 0.25})), Type(f32, {2}), {5, 12.5});
  EXPECT_THROW(lerp(a, Vec({1, 1}, f64), 0.5), TypeError);
  EXPECT_THROW(lerp(a, b, Vec({1, 1}, f64)), TypeError);
}

TEST(Special, AddcmulAndAddcdiv) {
  Tensor x = Vec({1, 2}), a = Vec({3, 4}), b = Vec({2, 8});
  EXPECT_TENSOR(addcmul(x, a, b, 0.5), Type(f32, {2}), {4, 18});
  EXPECT_TENSOR(addcdiv(x, a, b, 2), Type(f32, {2}), {4, 3});
  EXPECT_TENSOR(addcmul(Vec({1}, i64), Vec({2}, i64), Vec({3}, i64)), Type(i64, {1}), {7});
  EXPECT_ERROR(addcdiv(Vec({1}, i64), Vec({2}, i64), Vec({3}, i64)), TypeError, "integer division");
  EXPECT_TENSOR(addcmul(tensor(1.0, bf16), tensor(2.0, bf16), tensor(3.0, bf16), 0.1),
                Type(bf16, {}), {1.6015625});
}

TEST(Special, NanToNumReplacesWithFiniteValues) {
  Tensor x = Vec({kNan, kInf, -kInf, 1});
  double most = std::numeric_limits<float>::max();
  EXPECT_TENSOR(nan_to_num(x), Type(f32, {4}), {0, most, -most, 1});
  EXPECT_TENSOR(nan_to_num(x, 7, 8, 9), Type(f32, {4}), {7, 8, 9, 1});
  EXPECT_TENSOR(nan_to_num(Vec({3}, i64)), Type(i64, {1}), {3});
}

TEST(Special, AnglesAndScales) {
  EXPECT_TENSOR(deg2rad(Vec({180}, i64)), Type(f32, {1}), {static_cast<float>(M_PI)});
  EXPECT_TENSOR(rad2deg(Vec({M_PI}, f64)), Type(f64, {1}), {180});
  EXPECT_TENSOR(angle(Vec({-1, 1, kNan})), Type(f32, {3}), {static_cast<float>(M_PI), 0, kNan});
  EXPECT_TENSOR(ldexp(Vec({1.5}), Vec({3}, i32)), Type(f32, {1}), {12});
}

}  // namespace
}  // namespace hammock
