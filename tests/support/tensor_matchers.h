#pragma once
/// Assertions for tensors. A failure prints the first differing index and both values.
///
///   EXPECT_TENSOR_EQ(x + 1, {2, 3, 4, 5}, {2, 2});       // values and sizes
///   EXPECT_TENSOR_EQ(y, x.clone());                      // dtype, sizes and bits of values
///   EXPECT_TENSOR_NEAR(exp(x), {1.0, 2.71828}, {2});     // within 1e-5, relative or absolute
///   EXPECT_TENSOR_NEAR(exp(x), {1.0, 2.7}, {2}, 0.05);
///   EXPECT_THROW_MESSAGE(matmul(a, b), ValueError, "inner sizes differ");

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <sstream>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "hammock/error.h"
#include "hammock/host_tensor.h"
#include "hammock/tensor.h"

namespace hammock::testing {

/// "[1,2]" for flat index 5 of sizes [2,3].
inline std::string IndexText(int64_t flat, const Dims& sizes) {
  Dims index = sizes;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    index[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return ToString(index);
}

/// Equal values; NaN equals NaN. Integers are compared as such, not through a double.
inline bool SameValue(const Scalar& a, const Scalar& b) {
  if (!a.IsFloating() && !b.IsFloating()) return a.ToInt() == b.ToInt();
  double x = a.ToDouble(), y = b.ToDouble();
  return x == y || (std::isnan(x) && std::isnan(y));
}

inline bool NearValue(const Scalar& a, const Scalar& b, double tolerance) {
  if (SameValue(a, b)) return true;
  double x = a.ToDouble(), y = b.ToDouble();
  if (!std::isfinite(x) || !std::isfinite(y)) return false;
  return std::abs(x - y) <= tolerance * (1.0 + std::abs(y));
}

/// Compares element by element with `same(actual, expected)`; `text` is the expression compared.
template <class Same>
::testing::AssertionResult CompareTensors(const char* text, const HostTensor& actual,
                                          const HostTensor& expected, Same same) {
  if (actual.shape().sizes() != expected.shape().sizes()) {
    return ::testing::AssertionFailure()
           << text << " has sizes " << ToString(actual.shape().sizes()) << ", expected "
           << ToString(expected.shape().sizes());
  }
  int64_t differing = 0, first = 0;
  for (int64_t i = actual.numel() - 1; i >= 0; --i) {
    if (same(actual.at(i), expected.at(i))) continue;
    ++differing;
    first = i;
  }
  if (differing == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << text << IndexText(first, actual.shape().sizes()) << " is "
         << actual.at(first).to_string() << ", expected " << expected.at(first).to_string() << "; "
         << differing << " of " << actual.numel() << " elements differ";
}

template <class T>
HostTensor Expected(const std::vector<T>& values, const Dims& sizes) {
  HostTensor result{Shape(DTypeOf<T>, sizes)};
  if (static_cast<size_t>(result.numel()) != values.size()) {
    ADD_FAILURE() << "the test gives " << values.size() << " values for sizes " << ToString(sizes);
    return HostTensor{Shape(DTypeOf<T>, {-1})};
  }
  for (size_t i = 0; i < values.size(); ++i) {
    result.set(static_cast<int64_t>(i), Scalar(static_cast<T>(values[i])));
  }
  return result;
}

inline ::testing::AssertionResult TensorEq(const char* text, const Tensor& actual,
                                           std::initializer_list<double> values,
                                           const Dims& sizes) {
  return CompareTensors(text, actual.host(), Expected(std::vector<double>(values), sizes),
                        SameValue);
}

template <class T>
::testing::AssertionResult TensorEq(const char* text, const Tensor& actual,
                                    const std::vector<T>& values, const Dims& sizes) {
  return CompareTensors(text, actual.host(), Expected(values, sizes), SameValue);
}

inline ::testing::AssertionResult TensorEq(const char* text, const HostTensor& actual,
                                           const HostTensor& expected) {
  if (actual.dtype() != expected.dtype()) {
    return ::testing::AssertionFailure() << text << " is " << actual.shape().to_string()
                                         << ", expected " << expected.shape().to_string();
  }
  return CompareTensors(text, actual, expected,
                        [](const Scalar& a, const Scalar& b) { return a == b; });
}

inline ::testing::AssertionResult TensorEq(const char* text, const Tensor& actual,
                                           const Tensor& expected) {
  return TensorEq(text, actual.host(), expected.host());
}

inline ::testing::AssertionResult TensorNear(const char* text, const Tensor& actual,
                                             std::initializer_list<double> values,
                                             const Dims& sizes, double tolerance = 1e-5) {
  auto near = [&](const Scalar& a, const Scalar& b) { return NearValue(a, b, tolerance); };
  return CompareTensors(text, actual.host(), Expected(std::vector<double>(values), sizes), near);
}

template <class T>
::testing::AssertionResult TensorNear(const char* text, const Tensor& actual,
                                      const std::vector<T>& values, const Dims& sizes,
                                      double tolerance = 1e-5) {
  auto near = [&](const Scalar& a, const Scalar& b) { return NearValue(a, b, tolerance); };
  return CompareTensors(text, actual.host(), Expected(values, sizes), near);
}

inline ::testing::AssertionResult TensorNear(const char* text, const Tensor& actual,
                                             const Tensor& expected, double tolerance = 1e-5) {
  auto near = [&](const Scalar& a, const Scalar& b) { return NearValue(a, b, tolerance); };
  return CompareTensors(text, actual.host(), expected.host(), near);
}

/// Whether `statement` throws an E (or a class derived from it) whose text contains `substring`.
template <class E, class F>
::testing::AssertionResult Throws(const char* text, F&& statement, const std::string& substring) {
  try {
    statement();
  } catch (const E& error) {
    std::string what = error.what();
    if (what.find(substring) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << text << " throws \"" << what << "\", which does not contain \"" << substring << '"';
  } catch (const std::exception& error) {
    return ::testing::AssertionFailure()
           << text << " throws another class, " << typeid(error).name() << ": " << error.what();
  }
  return ::testing::AssertionFailure() << text << " throws nothing";
}

}  // namespace hammock::testing

#define EXPECT_TENSOR_EQ(actual, ...) \
  EXPECT_TRUE(::hammock::testing::TensorEq(#actual, actual, __VA_ARGS__))
#define ASSERT_TENSOR_EQ(actual, ...) \
  ASSERT_TRUE(::hammock::testing::TensorEq(#actual, actual, __VA_ARGS__))
#define EXPECT_TENSOR_NEAR(actual, ...) \
  EXPECT_TRUE(::hammock::testing::TensorNear(#actual, actual, __VA_ARGS__))
#define EXPECT_THROW_MESSAGE(statement, ErrorClass, substring) \
  EXPECT_TRUE((::hammock::testing::Throws<ErrorClass>(         \
      #statement, [&] { statement; }, substring)))
