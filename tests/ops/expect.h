#pragma once
/// Comparison of tensors with values written in a test; a failure names the first differing index.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "hammock/metrics.h"
#include "hammock/ops.h"
#include "hammock/tensor.h"

namespace hammock {

/// NaN equals NaN; with a tolerance of 0 the sign of zero counts too.
inline ::testing::AssertionResult IsTensor(const Tensor& x, const Shape& type,
                                           const std::vector<double>& expected,
                                           double tolerance = 0) {
  if (x.shape() != type) {
    return ::testing::AssertionFailure()
           << "is " << x.shape().to_string() << ", expected " << type.to_string();
  }
  HostTensor host = x.host();
  for (int64_t i = 0; i < host.numel(); ++i) {
    double got = host.at(i).ToDouble(), want = expected.at(static_cast<size_t>(i));
    bool same = std::isnan(want) ? std::isnan(got)
                : tolerance == 0 ? got == want && std::signbit(got) == std::signbit(want)
                                 : got == want || std::abs(got - want) <= tolerance;
    if (!same) {
      return ::testing::AssertionFailure()
             << "element " << i << " is " << got << ", expected " << want;
    }
  }
  if (static_cast<size_t>(host.numel()) != expected.size()) {
    return ::testing::AssertionFailure() << expected.size() << " values expected";
  }
  return ::testing::AssertionSuccess();
}

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// How many graphs were compiled so far.
inline int64_t Compiles() { return metrics::CounterValue("UncachedCompile").value_or(0); }

/// A one-dimensional tensor of any dtype.
inline Tensor Vec(std::vector<double> values, DType dtype = f32) { return tensor(values, dtype); }
inline Shape Type(DType dtype, const Dims& sizes) { return Shape(dtype, sizes); }

}  // namespace hammock

#define EXPECT_TENSOR(x, ...) EXPECT_TRUE(::hammock::IsTensor(x, __VA_ARGS__)) << #x
/// The statement throws E with a message that contains `text`.
#define EXPECT_ERROR(statement, E, text)                                 \
  do {                                                                   \
    try {                                                                \
      statement;                                                         \
      ADD_FAILURE() << #statement << " did not throw";                   \
    } catch (const E& error) {                                           \
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) \
          << "message: " << error.what();                                \
    }                                                                    \
  } while (false)
