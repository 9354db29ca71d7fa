#include "backends/reference/special.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hammock::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Special, ErfinvInvertsErf) {
  for (double x : {1e-300, 1e-9, 0.1, 0.3, 0.499, 0.5, 0.7, 0.9, 0.99, 0.999999}) {
    double y = Erfinv(x);
    EXPECT_NEAR(std::erf(y) / x, 1, 4e-16) << x;
    EXPECT_EQ(Erfinv(-x), -y);
  }
}

TEST(Special, ErfinvIsExactInTheTail) {
  for (double complement : {1e-4, 1e-8, 1e-12, 0x1p-52}) {
    // The complement as it survives the rounding of 1 - complement.
    double x = 1 - complement;
    EXPECT_NEAR(std::erfc(Erfinv(x)) / (1 - x), 1, 1e-13) << complement;
  }
  EXPECT_EQ(Erfinv(1), kInfinity);
  EXPECT_EQ(Erfinv(-1), -kInfinity);
  EXPECT_TRUE(std::isnan(Erfinv(1.5)));
  EXPECT_EQ(Erfinv(0), 0);
  EXPECT_TRUE(std::signbit(Erfinv(-0.0)));
}

TEST(Special, DigammaHasKnownValues) {
  // DLMF 5.4: -gamma at 1, and values by recurrence and reflection.
  constexpr double kGamma = 0.57721566490153286;
  EXPECT_NEAR(Digamma(1), -kGamma, 1e-15);
  EXPECT_NEAR(Digamma(2), 1 - kGamma, 1e-15);
  EXPECT_NEAR(Digamma(0.5), -kGamma - 2 * std::log(2), 2e-15);
  EXPECT_NEAR(Digamma(-0.5), 2 - kGamma - 2 * std::log(2), 2e-15);
  EXPECT_NEAR(Digamma(100), 4.6001618527380874, 1e-15);
  EXPECT_NEAR(Digamma(1e10), std::log(1e10) - 5e-11, 1e-14);
}

TEST(Special, DigammaHasPoles) {
  EXPECT_EQ(Digamma(0.0), -kInfinity);
  EXPECT_EQ(Digamma(-0.0), kInfinity);
  EXPECT_TRUE(std::isnan(Digamma(-3)));
  EXPECT_EQ(Digamma(kInfinity), kInfinity);
}

TEST(Special, LgammaIsInfiniteAtItsPoles) {
  EXPECT_EQ(Lgamma(0), kInfinity);
  EXPECT_EQ(Lgamma(-2), kInfinity);
  EXPECT_EQ(Lgamma(1), 0);
  EXPECT_NEAR(Lgamma(10), std::log(362880.0), 1e-14);
}

}  // namespace
}  // namespace hammock::reference
