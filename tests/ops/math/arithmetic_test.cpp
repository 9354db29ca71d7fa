#include "hammock/error.h"
#include "hammock/executor.h"
#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

TEST(Arithmetic, PromotesTensorsByCategoryAndRank) {
  Tensor i = Vec({1, 2}, i32), scalar = tensor(2.5, f64);
  EXPECT_TENSOR(add(i, scalar), Type(f64, {2}), {3.5, 4.5});
  EXPECT_TENSOR(add(Vec({1, 2}, f16), scalar), Type(f16, {2}), {3.5, 4.5});
  EXPECT_TENSOR(add(i, Vec({1, 1}, i64)), Type(i64, {2}), {2, 3});
  EXPECT_TENSOR(add(i, tensor(1, i64)), Type(i32, {2}), {2, 3});
  EXPECT_TENSOR(add(Vec({1, 2}, f16), Vec({1, 2}, bf16)), Type(f32, {2}), {2, 4});
  EXPECT_TENSOR(add(tensor(1, i64), tensor(0.5, f16)), Type(f16, {}), {1.5});
}

TEST(Arithmetic, NumbersTakeTheDTypeOfTheirKind) {
  EXPECT_TENSOR(add(Vec({1, 2}, i8), 3), Type(i8, {2}), {4, 5});
  EXPECT_TENSOR(add(Vec({1, 2}, i8), 0.5), Type(f32, {2}), {1.5, 2.5});
  EXPECT_TENSOR(add(Vec({1, 0}, boolean), 3), Type(i64, {2}), {4, 3});
  EXPECT_TENSOR(add(Vec({1, 0}, boolean), true), Type(boolean, {2}), {1, 1});
  EXPECT_TENSOR(mul(Vec({1, 2}, bf16), 0.5), Type(bf16, {2}), {0.5, 1});
  EXPECT_TENSOR(div(Vec({1, 2}, i64), 2), Type(f32, {2}), {0.5, 1});
  EXPECT_TENSOR(add(tensor(2, i64), 0.5), Type(f32, {}), {2.5});
}

TEST(Arithmetic, BroadcastsAndKeepsEmptyTensorsEmpty) {
  Tensor column = tensor({{1.0}, {2.0}}), row = Vec({10, 20, 30});
  EXPECT_TENSOR(add(column, row), Type(f32, {2, 3}), {11, 21, 31, 12, 22, 32});
  EXPECT_TENSOR(add(zeros({0, 3}), row), Type(f32, {0, 3}), {});
  EXPECT_TENSOR(exp(zeros({2, 0})), Type(f32, {2, 0}), {});
  EXPECT_THROW(add(zeros({2, 3}), zeros({2, 4})), ValueError);
}

TEST(Arithmetic, AlphaScalesTheSecondOperand) {
  Tensor x = Vec({1, 2}), y = Vec({10, 20});
  EXPECT_TENSOR(add(x, y, 0.5), Type(f32, {2}), {6, 12});
  EXPECT_TENSOR(sub(x, y, 2), Type(f32, {2}), {-19, -38});
  EXPECT_TENSOR(rsub(x, y, 2), Type(f32, {2}), {8, 16});
  EXPECT_TENSOR(rsub(x, 1), Type(f32, {2}), {0, -1});
  EXPECT_ERROR(add(Vec({1}, i64), Vec({1}, i64), 0.5), TypeError, "alpha");
  EXPECT_ERROR(sub(Vec({1}, boolean), Vec({1}, i64)), TypeError, "sub: bool");
}

TEST(Arithmetic, DivisionRoundsAsAsked) {
  Tensor x = Vec({7, -7, 7, -7}, i64), y = Vec({2, 2, -2, -2}, i64);
  EXPECT_TENSOR(div(x, y), Type(f32, {4}), {3.5, -3.5, -3.5, 3.5});
  EXPECT_TENSOR(div(x, y, "floor"), Type(i64, {4}), {3, -4, -4, 3});
  EXPECT_TENSOR(div(x, y, "trunc"), Type(i64, {4}), {3, -3, -3, 3});
  EXPECT_TENSOR(floor_divide(Vec({7, -7}), 2.0), Type(f32, {2}), {3, -4});
  EXPECT_TENSOR(remainder(x, y), Type(i64, {4}), {1, 1, -1, -1});
  EXPECT_TENSOR(fmod(x, y), Type(i64, {4}), {1, -1, 1, -1});
  EXPECT_TENSOR(div(Vec({1, -1, 0}), 0.0), Type(f32, {3}), {kInf, -kInf, kNan});
  EXPECT_ERROR(div(x, y, "round"), ValueError, "rounding_mode 'round'");
}

TEST(Arithmetic, UnaryFunctionsOfIntegersAreFloats) {
  EXPECT_TENSOR(sqrt(Vec({4, 9}, i32)), Type(f32, {2}), {2, 3});
  EXPECT_TENSOR(exp(Vec({0, 1}, boolean)), Type(f32, {2}), {1, std::exp(1.0)}, 1e-6);
  EXPECT_TENSOR(floor(Vec({4, 9}, i32)), Type(i32, {2}), {4, 9});
  EXPECT_TENSOR(sign(Vec({-2, 0, 5}, i8)), Type(i8, {3}), {-1, 0, 1});
  EXPECT_TENSOR(neg(Vec({0, 1})), Type(f32, {2}), {-0.0, -1});
  EXPECT_THROW(neg(Vec({1}, boolean)), TypeError);
}

TEST(Arithmetic, RoundsHalvesToEvenAndToDecimals) {
  EXPECT_TENSOR(round(Vec({0.5, 1.5, 2.5, -0.5})), Type(f32, {4}), {0, 2, 2, -0.0});
  EXPECT_TENSOR(round(Vec({1.234, -5.678}, f64), 2), Type(f64, {2}), {1.23, -5.68});
  EXPECT_TENSOR(round(Vec({1234, 1250}), -2), Type(f32, {2}), {1200, 1200});
  EXPECT_TENSOR(frac(Vec({1.5, -1.25})), Type(f32, {2}), {0.5, -0.25});
}

TEST(Arithmetic, PowersSpecialiseTheirExponent) {
  Tensor x = Vec({4, 9});
  EXPECT_TENSOR(pow(x, 2), Type(f32, {2}), {16, 81});
  EXPECT_TENSOR(pow(x, 0.5), Type(f32, {2}), {2, 3});
  EXPECT_TENSOR(pow(x, -1), Type(f32, {2}), {0.25, 1.0f / 9});
  EXPECT_TENSOR(pow(x, -0.5), Type(f32, {2}), {0.5, 1.0f / 3});
  EXPECT_TENSOR(pow(Vec({kNan, kInf}), 0), Type(f32, {2}), {1, 1});
  EXPECT_TENSOR(pow(Vec({2, 3}, i64), 5), Type(i64, {2}), {32, 243});
  EXPECT_TENSOR(pow(Vec({2, 3}, i64), 0.5), Type(f32, {2}), {std::sqrt(2.0), std::sqrt(3.0)}, 1e-6);
  EXPECT_TENSOR(pow(2, Vec({3, 4}, i32)), Type(i32, {2}), {8, 16});
  EXPECT_TENSOR(pow(x, Vec({0.5, 2})), Type(f32, {2}), {2, 81});
  EXPECT_ERROR(pow(Vec({2}, i64), -1), ValueError,
               "integers to negative integer powers are not allowed");
  EXPECT_TENSOR(float_power(Vec({2, 3}, i32), -1), Type(f64, {2}), {0.5, 1.0 / 3});
  EXPECT_TENSOR(square(Vec({1, 0}, boolean)), Type(i64, {2}), {1, 0});
}

TEST(Arithmetic, IntegersHaveDivisorsInCommon) {
  Tensor a = Vec({12, -18, 0, 0, 7}, i32), b = Vec({18, 12, 5, 0, 13}, i32);
  EXPECT_TENSOR(gcd(a, b), Type(i32, {5}), {6, 6, 5, 0, 1});
  EXPECT_TENSOR(lcm(a, b), Type(i32, {5}), {36, 36, 0, 0, 91});
  EXPECT_TENSOR(lcm(Vec({52}, i8), Vec({3}, i8)), Type(i8, {1}), {-100});
  EXPECT_THROW(gcd(Vec({1}), Vec({2})), TypeError);
  EXPECT_THROW(bitwise_and(Vec({1}), Vec({2})), TypeError);
}

TEST(Arithmetic, MaximumPropagatesNanAndFmaxDoesNot) {
  Tensor a = Vec({1, kNan, -0.0}), b = Vec({2, 1, -1});
  EXPECT_TENSOR(maximum(a, b), Type(f32, {3}), {2, kNan, -0.0});
  EXPECT_TENSOR(fmax(a, b), Type(f32, {3}), {2, 1, -0.0});
  EXPECT_TENSOR(minimum(a, b), Type(f32, {3}), {1, kNan, -1});
  EXPECT_TENSOR(fmin(a, b), Type(f32, {3}), {1, 1, -1});
}

TEST(Arithmetic, AnotherAlphaDoesNotRecompile) {
  Tensor x = Vec({1, 2, 3}), y = Vec({1, 1, 1});
  auto run = [&](double alpha) { return add(x, y, alpha).to_vector<float>()[0]; };
  EXPECT_EQ(run(0.5), 1.5f);
  int64_t before = Compiles();
  EXPECT_EQ(run(0.0), 1.0f);
  EXPECT_EQ(run(1.0), 2.0f);
  EXPECT_EQ(Compiles(), before);
}

TEST(Arithmetic, CallsByNameChooseTheOverload) {
  Tensor x = Vec({1, 2}), y = Vec({10, 20});
  EXPECT_TENSOR(CallOp("add", {x, y}).ToTensor(), Type(f32, {2}), {11, 22});
  EXPECT_TENSOR(CallOp("add", {x, 3}).ToTensor(), Type(f32, {2}), {4, 5});
  EXPECT_TENSOR(CallOp("add", {x, y}, {{"alpha", 2}}).ToTensor(), Type(f32, {2}), {21, 42});
  EXPECT_TENSOR(CallOp("div", {x, y}, {{"rounding_mode", "floor"}}).ToTensor(), Type(f32, {2}),
                {0, 0});
  EXPECT_TENSOR(CallOp("round", {Vec({1.26})}, {{"decimals", 1}}).ToTensor(), Type(f32, {1}),
                {1.3f});
  EXPECT_TENSOR(CallOp("pow", {x, 2}).ToTensor(), Type(f32, {2}), {1, 4});
  EXPECT_TENSOR(CallOp("pow", {2.0, x}).ToTensor(), Type(f32, {2}), {2, 4});
}

TEST(NumberFirst, CountsAsANumberBesideATensorOfRankZero) {
  Tensor half = tensor(2.0, bf16), small = tensor(5, i32);
  for (const char* op : {"pow", "remainder", "fmod", "rsub", "sub", "mul", "atan2", "maximum"}) {
    EXPECT_EQ(CallOp(op, {0.5, half}).ToTensor().shape(), Type(bf16, {})) << op;
  }
  for (const char* op : {"bitwise_and", "bitwise_or", "bitwise_left_shift", "remainder", "pow"}) {
    EXPECT_EQ(CallOp(op, {3, small}).ToTensor().shape(), Type(i32, {})) << op;
  }
  EXPECT_TENSOR(CallOp("remainder", {7.5, half}).ToTensor(), Type(bf16, {}), {1.5});
  EXPECT_TENSOR(CallOp("rsub", {0.5, half}).ToTensor(), Type(bf16, {}), {1.5});
  EXPECT_EQ(CallOp("mul", {0.5, small}).ToTensor().dtype(), f32);
}

TEST(NumberFirst, KeepsAllDigitsBesideF64) {
  EXPECT_EQ(CallOp("sub", {0.1, tensor({0.0}, f64)}).ToTensor().item<double>(), 0.1);
}

}  // namespace
}  // namespace hammock
