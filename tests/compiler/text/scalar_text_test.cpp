#include "hammock/compiler/scalar_text.h"

#include <gtest/gtest.h>

namespace hammock::compiler {
namespace {

TEST(ScalarText, KnowsWhatItHasNoTextFor) {
  EXPECT_TRUE(HasText(ScalarFn::kExp, DType::kBF16));
  EXPECT_TRUE(HasText(ScalarFn::kFmod, DType::kF64));
  EXPECT_TRUE(HasText(ScalarFn::kDigamma, DType::kF32));
  EXPECT_FALSE(HasText(ScalarFn::kGcd, DType::kF32));
}

TEST(ScalarText, ConstantsAreExact) {
  ScalarText scalars(kCudaC);
  EXPECT_EQ(scalars.Scalar(ScalarFn::kRsqrt, DType::kF32, {"x"}), "rsqrt_f32(x)");
  EXPECT_EQ(scalars.Functions(),
            "__device__ inline float rsqrt_f32(float x) {\n  float v0 = sqrtf(x);\n"
            "  float v1 = (float)0x1p+0f / v0;\n  return v1;\n}\n");
}

TEST(ScalarText, IsWrittenInTheDialect) {
  ScalarText scalars(kOpenClC);
  EXPECT_EQ(scalars.Scalar(ScalarFn::kRsqrt, DType::kF32, {"x"}), "rsqrt_f32(x)");
  EXPECT_EQ(scalars.Functions(),
            "static inline float rsqrt_f32(float x) {\n  float v0 = sqrt(x);\n"
            "  float v1 = (float)0x1p+0f / v0;\n  return v1;\n}\n");
}

}  // namespace
}  // namespace hammock::compiler
