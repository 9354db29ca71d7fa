#include "hammock/ir/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace hammock {
namespace {

template <class T>
class SixteenBits : public testing::Test {};
using Types = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(SixteenBits, Types);

template <class T>
uint16_t Infinity();
template <>
uint16_t Infinity<Half>() {
  return 0x7c00;
}
template <>
uint16_t Infinity<BFloat16>() {
  return 0x7f80;
}

TYPED_TEST(SixteenBits, EveryPatternSurvivesFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto pattern = static_cast<uint16_t>(bits);
    float value = TypeParam::FromBits(pattern);
    TypeParam back(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(back))) << bits;
      EXPECT_EQ(back.bits & 0x8000, pattern & 0x8000) << bits;
    } else {
      ASSERT_EQ(back.bits, pattern);
    }
  }
}

// Between every two neighbours: the middle goes to the even one, the rest to the nearer one.
TYPED_TEST(SixteenBits, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits + 1 < Infinity<TypeParam>(); ++bits) {
    auto low = static_cast<uint16_t>(bits);
    auto high = static_cast<uint16_t>(bits + 1);
    double below = static_cast<float>(TypeParam::FromBits(low));
    double above = static_cast<float>(TypeParam::FromBits(high));
    auto middle = static_cast<float>((below + above) / 2);
    if (static_cast<double>(middle) == (below + above) / 2) {  // else it is no float
      ASSERT_EQ(TypeParam(middle).bits, low % 2 == 0 ? low : high) << middle;
      ASSERT_EQ(TypeParam(-middle).bits, (low % 2 == 0 ? low : high) | 0x8000) << middle;
    }
    ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0f)).bits, low);
    ASSERT_EQ(TypeParam(std::nextafter(middle, INFINITY)).bits, high);
  }
}

TYPED_TEST(SixteenBits, OverflowsToInfinity) {
  auto largest = static_cast<uint16_t>(Infinity<TypeParam>() - 1);
  double max = static_cast<float>(TypeParam::FromBits(largest));
  double step = max - static_cast<float>(TypeParam::FromBits(largest - 1));
  auto limit = static_cast<float>(max + step / 2);
  EXPECT_EQ(TypeParam(std::nextafter(limit, 0.0f)).bits, largest);
  EXPECT_EQ(TypeParam(limit).bits, Infinity<TypeParam>());
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::infinity()).bits, Infinity<TypeParam>());
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::infinity()).bits,
            Infinity<TypeParam>() | 0x8000);
}

TYPED_TEST(SixteenBits, KeepsSignsOfZero) {
  EXPECT_EQ(TypeParam(0.0f).bits, 0);
  EXPECT_EQ(TypeParam(-0.0f).bits, 0x8000);
}

}  // namespace
}  // namespace hammock
