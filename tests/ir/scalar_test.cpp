#include "hammock/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "hammock/error.h"
#include "ir/text.h"

namespace hammock {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();

TEST(Scalar, LiteralsHaveTheirWidestType) {
  EXPECT_EQ(Scalar(true).dtype(), boolean);
  EXPECT_EQ(Scalar(3).dtype(), i64);
  EXPECT_EQ(Scalar(uint8_t{3}).dtype(), i64);
  EXPECT_EQ(Scalar(uint64_t{3}).dtype(), u64);
  EXPECT_EQ(Scalar(2.5f).dtype(), f64);
  EXPECT_EQ(Scalar(Half(2.5f)).ToDouble(), 2.5);
}

TEST(Scalar, ConvertsAsACastDoes) {
  EXPECT_EQ(Scalar(-2.9).ToInt(), -2);
  EXPECT_EQ(Scalar(300).To(u8).ToInt(), 44);
  EXPECT_EQ(Scalar(-1).To(u64).bits(), ~uint64_t{0});
  EXPECT_EQ(Scalar(-1).To(u64).ToDouble(), 0x1p64);
  EXPECT_EQ(Scalar(0.1).To(f32).ToDouble(), 0.1f);
  EXPECT_EQ(Scalar(70000.0).To(f16).ToDouble(), INFINITY);
  EXPECT_EQ(Scalar(1.00390625).To(bf16).ToDouble(), 1.0);
  EXPECT_TRUE(Scalar(0.5).To(boolean).ToBool());
  EXPECT_TRUE(Scalar(kNan).ToBool());
  EXPECT_FALSE(Scalar(-0.0).ToBool());
}

TEST(Scalar, ConvertsWhatDoesNotFitWithoutSurprise) {
  EXPECT_EQ(Scalar(kNan).ToInt(), kMinInt);
  EXPECT_EQ(Scalar(1e30).ToInt(), kMinInt);
  EXPECT_EQ(Scalar(-INFINITY).ToInt(), kMinInt);
  EXPECT_EQ(Scalar(0x1p63).ToInt(), kMinInt);
  EXPECT_EQ(Scalar(3e9).To(i32).ToInt(), int64_t{3000000000} - (int64_t{1} << 32));
  EXPECT_EQ(Scalar(-1.5).To(u8).ToInt(), 255);
  EXPECT_EQ(Scalar(kNan).To(i32).ToInt(), 0);
  EXPECT_EQ(Scalar(0x1.8p63).To(u64).bits(), uint64_t{3} << 62);
}

TEST(Scalar, EqualityIsOfTypeAndBits) {
  EXPECT_NE(Scalar(0.0), Scalar(-0.0));
  EXPECT_EQ(Scalar(kNan), Scalar(kNan));
  EXPECT_NE(Scalar(1), Scalar(1.0));
}

TEST(Scalar, StoresAndLoadsEveryDType) {
  for (int i = 0; i <= static_cast<int>(c128); ++i) {
    auto dtype = static_cast<DType>(i);
    Scalar one = Scalar(1).To(dtype);
    char element[Scalar::kMaxBytes];
    one.Store(element);
    EXPECT_EQ(Scalar::Load(dtype, element), one) << NameOf(dtype);
  }
  unsigned char odd = 2;
  EXPECT_EQ(Scalar::Load(boolean, &odd), Scalar(true));
}

TEST(Scalar, HoldsStorageTypes) {
  EXPECT_EQ(Scalar(9).To(DType::kI4).ToInt(), -7);
  EXPECT_EQ(Scalar(25).To(DType::kU4).ToInt(), 9);
  EXPECT_EQ(Scalar(6).To(DType::kI2).ToInt(), -2);
  EXPECT_EQ(Scalar(-1).To(DType::kU2).ToInt(), 3);
  EXPECT_EQ(Scalar(1.07).To(DType::kF8E4M3).ToDouble(), 1.125);
}

TEST(Scalar, HoldsComplexNumbers) {
  Scalar z(std::complex<double>(1.5, -2));
  EXPECT_EQ(z.dtype(), c128);
  EXPECT_EQ(z.As<std::complex<double>>(), std::complex<double>(1.5, -2));
  EXPECT_EQ(z.To(f32).ToDouble(), 1.5);
  EXPECT_EQ(z.To(i64).ToInt(), 1);
  EXPECT_TRUE(Scalar(std::complex<double>(0, 1)).ToBool());
  EXPECT_EQ(Scalar(2).To(c64).As<std::complex<double>>(), std::complex<double>(2, 0));
  EXPECT_EQ(Scalar(std::complex<double>(0.1, 0)).To(c64).ToDouble(), static_cast<double>(0.1f));
  EXPECT_THROW(z.As<double>(), ValueError);
  EXPECT_EQ(z.As<std::complex<float>>(), std::complex<float>(1.5f, -2));
  EXPECT_EQ(z.to_string(), "(1.5,-2.0)");
  EXPECT_EQ(z.To(c64).to_string(), "(1.5,-2.0):c64");
}

TEST(Scalar, PrintsItsTypeWhereItIsNotObvious) {
  EXPECT_EQ(Scalar(2.5).to_string(), "2.5");
  EXPECT_EQ(Scalar(2.0).to_string(), "2.0");
  EXPECT_EQ(Scalar(1e100).to_string(), "1e+100");
  EXPECT_EQ(Scalar(-0.0).to_string(), "-0.0");
  EXPECT_EQ(Scalar(INFINITY).to_string(), "inf");
  EXPECT_EQ(Scalar(-INFINITY).to_string(), "-inf");
  EXPECT_EQ(Scalar(kNan).to_string(), "nan");
  EXPECT_EQ(Scalar(3).to_string(), "3");
  EXPECT_EQ(Scalar(true).to_string(), "true");
  EXPECT_EQ(Scalar(0.1).To(f32).to_string(), "0.1:f32");
  EXPECT_EQ(Scalar(3).To(i8).to_string(), "3:i8");
  EXPECT_EQ(Scalar(-1).To(u64).to_string(), "18446744073709551615:u64");
}

TEST(ParseNumber, ReadsWhatFits) {
  EXPECT_EQ(ParseNumber("255", u8), Scalar(255).To(u8));
  EXPECT_EQ(ParseNumber("256", u8), std::nullopt);
  EXPECT_EQ(ParseNumber("-1", u8), std::nullopt);
  EXPECT_EQ(ParseNumber("18446744073709551615", u64), Scalar(-1).To(u64));
  EXPECT_EQ(ParseNumber("1.5", i64), std::nullopt);
  EXPECT_EQ(ParseNumber("0.1", f32), Scalar(0.1).To(f32));
  EXPECT_EQ(ParseNumber("1x", f64), std::nullopt);
  EXPECT_EQ(ParseNumber("", f64), std::nullopt);
}

TEST(AppendQuoted, EscapesWhatIsNotPrintable) {
  std::string out;
  AppendQuoted(out, std::string("a\"b\\c\n\t\0\xff", 9));
  EXPECT_EQ(out, R"("a\"b\\c\n\x09\x00\xff")");
}

}  // namespace
}  // namespace hammock
