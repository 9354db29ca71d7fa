#include "ops/expect.h"

namespace hammock {
namespace {

TEST(Operators, TakeNumbersOnEitherSide) {
  Tensor x = Vec({1, 4});
  EXPECT_TENSOR(x + 1, Type(f32, {2}), {2, 5});
  EXPECT_TENSOR(1 + x, Type(f32, {2}), {2, 5});
  EXPECT_TENSOR(10 - x, Type(f32, {2}), {9, 6});
  EXPECT_TENSOR(2.0 * x, Type(f32, {2}), {2, 8});
  EXPECT_TENSOR(8 / x, Type(f32, {2}), {8, 2});
  EXPECT_TENSOR(x % 3, Type(f32, {2}), {1, 1});
  EXPECT_TENSOR(9 % Vec({4, -4}, i64), Type(i64, {2}), {1, -3});
  EXPECT_TENSOR(-x, Type(f32, {2}), {-1, -4});
  EXPECT_TENSOR(x * x - x / x, Type(f32, {2}), {0, 15});
}

TEST(Operators, CompareElements) {
  Tensor x = Vec({1, 2}), y = Vec({1, 3});
  EXPECT_TENSOR(x == y, Type(boolean, {2}), {1, 0});
  EXPECT_TENSOR(x != 1, Type(boolean, {2}), {0, 1});
  EXPECT_TENSOR(2 == x, Type(boolean, {2}), {0, 1});
  EXPECT_TENSOR(x < y, Type(boolean, {2}), {0, 1});
  EXPECT_TENSOR(1.5 >= x, Type(boolean, {2}), {1, 0});
  EXPECT_TENSOR(!(x > 1), Type(boolean, {2}), {1, 0});
}

TEST(Operators, WorkOnBits) {
  Tensor x = Vec({12, 10}, i32);
  EXPECT_TENSOR(x & 6, Type(i32, {2}), {4, 2});
  EXPECT_TENSOR(x | Vec({1, 1}, i32), Type(i32, {2}), {13, 11});
  EXPECT_TENSOR(x ^ 2, Type(i32, {2}), {14, 8});
  EXPECT_TENSOR(~x, Type(i32, {2}), {-13, -11});
  EXPECT_TENSOR(x << 1, Type(i32, {2}), {24, 20});
  EXPECT_TENSOR(x >> 1, Type(i32, {2}), {6, 5});
  EXPECT_TENSOR(1 << Vec({0, 3}, i64), Type(i64, {2}), {1, 8});
}

TEST(Operators, AssignInPlace) {
  Tensor x = Vec({1, 2}), alias = x;
  x += 1;
  x *= Vec({2, 3});
  x -= 1;
  x /= 2;
  EXPECT_TENSOR(alias, Type(f32, {2}), {1.5, 4});
  Tensor i = Vec({5, 6}, i64);
  i %= 4;
  i <<= 2;
  i |= 1;
  EXPECT_TENSOR(i, Type(i64, {2}), {5, 9});
}

TEST(Operators, CarryTheLineOfTheCall) {
  Tensor x = Vec({1, 2});
  Tensor y = 2.0 * x + 1;
  EXPECT_NE(y.summary().find("operators_test.cpp"), std::string::npos) << y.summary();
}

}  // namespace
}  // namespace hammock
