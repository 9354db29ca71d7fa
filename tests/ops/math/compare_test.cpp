#include "hammock/error.h"
#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

TEST(Compare, GivesBoolAndIsFalseForNan) {
  Tensor x = Vec({1, 2, kNan});
  EXPECT_TENSOR(eq(x, 2), Type(boolean, {3}), {0, 1, 0});
  EXPECT_TENSOR(ne(x, 2), Type(boolean, {3}), {1, 0, 1});
  EXPECT_TENSOR(lt(x, 1.5), Type(boolean, {3}), {1, 0, 0});
  EXPECT_TENSOR(ge(x, 1.5), Type(boolean, {3}), {0, 1, 0});
  EXPECT_TENSOR(lt(Vec({1, 2}, i64), 1.5), Type(boolean, {2}), {1, 0});
}

TEST(Compare, LogicalOpsReadTruthValues) {
  Tensor x = Vec({0, -1, kNan}), y = Vec({1, 0, 1}, i32);
  EXPECT_TENSOR(logical_and(x, y), Type(boolean, {3}), {0, 0, 1});
  EXPECT_TENSOR(logical_or(x, y), Type(boolean, {3}), {1, 1, 1});
  EXPECT_TENSOR(logical_xor(x, y), Type(boolean, {3}), {1, 1, 0});
  EXPECT_TENSOR(logical_not(x), Type(boolean, {3}), {1, 0, 0});
}

TEST(Compare, TestsOfOneOperand) {
  Tensor x = Vec({1, kInf, -kInf, kNan, -0.0});
  EXPECT_TENSOR(isnan(x), Type(boolean, {5}), {0, 0, 0, 1, 0});
  EXPECT_TENSOR(isinf(x), Type(boolean, {5}), {0, 1, 1, 0, 0});
  EXPECT_TENSOR(isfinite(x), Type(boolean, {5}), {1, 0, 0, 0, 1});
  EXPECT_TENSOR(isposinf(x), Type(boolean, {5}), {0, 1, 0, 0, 0});
  EXPECT_TENSOR(isneginf(x), Type(boolean, {5}), {0, 0, 1, 0, 0});
  EXPECT_TENSOR(signbit(Vec({-0.0, 1, -2})), Type(boolean, {3}), {1, 0, 1});
  EXPECT_TENSOR(isfinite(Vec({1, 2}, i32)), Type(boolean, {2}), {1, 1});
  EXPECT_TENSOR(signbit(Vec({200}, u8)), Type(boolean, {1}), {0});
}

TEST(Compare, WherePromotesBothChoices) {
  Tensor c = Vec({1, 0}, boolean);
  EXPECT_TENSOR(where(c, Vec({1, 2}, i32), Vec({0.5, 0.25})), Type(f32, {2}), {1, 0.25});
  EXPECT_TENSOR(where(c, 1, 0), Type(i64, {2}), {1, 0});
  EXPECT_TENSOR(where(c, 1.0, 0.0), Type(f32, {2}), {1, 0});
  EXPECT_TENSOR(where(c, Vec({1, 2}, f16), 0.0), Type(f16, {2}), {1, 0});
  EXPECT_ERROR(where(Vec({1, 0}), 1, 0), TypeError, "needs bool");
}

TEST(Compare, ClampKeepsNanAndLetsMaxWin) {
  Tensor x = Vec({-2, 0.5, kNan, 7});
  EXPECT_TENSOR(clamp(x, 0.0, 1.0), Type(f32, {4}), {0, 0.5, kNan, 1});
  EXPECT_TENSOR(clamp(x, None, 1.0), Type(f32, {4}), {-2, 0.5, kNan, 1});
  EXPECT_TENSOR(clamp(x, 3.0, 1.0), Type(f32, {4}), {1, 1, kNan, 1});
  EXPECT_TENSOR(clamp(x, Vec({0, 1, 0, 0})), Type(f32, {4}), {0, 1, kNan, 7});
  EXPECT_TENSOR(clamp(Vec({1, 5}, i64), 2, 3), Type(i64, {2}), {2, 3});
  EXPECT_TENSOR(clamp(Vec({1, 5}, i64), 2.5, None), Type(f32, {2}), {2.5, 5});
  EXPECT_TENSOR(clamp_max(x, 0.25), Type(f32, {4}), {-2, 0.25, kNan, 0.25});
  EXPECT_ERROR(clamp(x), ValueError, "clamp: at least one of min and max must be given");
}

TEST(Compare, IscloseAllowsForBothTolerances) {
  Tensor x = Vec({1, kInf, kNan, 100}), y = Vec({1 + 5e-6, kInf, kNan, 101});
  EXPECT_TENSOR(isclose(x, y), Type(boolean, {4}), {1, 1, 0, 0});
  EXPECT_TENSOR(isclose(x, y, 1e-5, 1e-8, true), Type(boolean, {4}), {1, 1, 1, 0});
  EXPECT_TENSOR(isclose(x, y, 0.1), Type(boolean, {4}), {1, 1, 0, 1});
  EXPECT_TENSOR(isclose(Vec({3}, i64), Vec({3}, i64)), Type(boolean, {1}), {1});
  EXPECT_ERROR(isclose(x, y, -1), ValueError, "rtol -1");
  EXPECT_ERROR(isclose(x, Vec({1, 1, 1, 1}, f64)), TypeError, "dtypes differ");
}

TEST(Compare, HeavisideUsesValuesAtZero) {
  EXPECT_TENSOR(heaviside(Vec({-1, 0, 2, kNan}), 0.5), Type(f32, {4}), {0, 0.5, 1, 0});
  EXPECT_ERROR(heaviside(Vec({1}), Vec({1}, f64)), TypeError, "dtypes differ");
}

TEST(Compare, ClampByNameTakesNumbersAndTensors) {
  Tensor x = Vec({-2, 2});
  EXPECT_TENSOR(CallOp("clamp", {x}, {{"min", 0.0}}).ToTensor(), Type(f32, {2}), {0, 2});
  EXPECT_TENSOR(CallOp("clamp", {x, Any(), Vec({-3, 1})}).ToTensor(), Type(f32, {2}), {-3, 1});
}

}  // namespace
}  // namespace hammock
