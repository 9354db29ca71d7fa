#pragma once
/// Helpers for tests of kernels: graph text and tensors in, tensors out.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "backends/reference/interpreter.h"
#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"

namespace hammock {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// A tensor from numbers: Make(f32, {2, 2}, {1, 2, 3, 4}).
inline HostTensor Make(DType dtype, const Dims& sizes, const std::vector<double>& values) {
  return HostTensor::From(values, sizes).To(dtype);
}
/// A vector.
inline HostTensor Make(DType dtype, const std::vector<double>& values) {
  return Make(dtype, {static_cast<int64_t>(values.size())}, values);
}
/// Integers that a double cannot hold.
inline HostTensor MakeInts(DType dtype, const std::vector<int64_t>& values) {
  return HostTensor::From(values, {static_cast<int64_t>(values.size())}).To(dtype);
}

/// Parses and interprets.
inline std::vector<HostTensor> RunAll(std::string_view text,
                                      const std::vector<HostTensor>& inputs) {
  Graph graph = ParseGraph(text);
  return reference::Interpret(graph, inputs);
}
inline HostTensor RunText(std::string_view text, const std::vector<HostTensor>& inputs) {
  return RunAll(text, inputs).at(0);
}

/// One node of an op without attributes; its type is inferred.
inline HostTensor Eval(std::string_view op, const std::vector<HostTensor>& operands) {
  Graph graph;
  std::vector<GraphValue> values;
  for (const HostTensor& operand : operands) values.push_back(graph.AddInput(operand.shape()));
  NodeId node = graph.AddNode(op_registry::Get(op), values);
  graph.AddOutput({node, 0});
  return reference::Interpret(graph, operands)[0];
}

/// Equal types and elements; NaN equals NaN, 0 differs from -0. Floats may be off by `ulps` of
/// their dtype's epsilon, relatively.
inline testing::AssertionResult SameTensor(const HostTensor& actual, const HostTensor& expected,
                                           double ulps = 0) {
  if (actual.shape() != expected.shape()) {
    return testing::AssertionFailure() << "the type is " << actual.shape().to_string()
                                       << ", expected " << expected.shape().to_string();
  }
  for (int64_t i = 0; i < actual.numel(); ++i) {
    Scalar a = actual.at(i);
    Scalar e = expected.at(i);
    if (a == e) continue;
    double x = a.ToDouble();
    double y = e.ToDouble();
    if (std::isnan(x) && std::isnan(y)) continue;
    double slack = ulps * InfoOf(actual.dtype()).epsilon * std::abs(y);
    if (ulps > 0 && std::abs(x - y) <= slack) continue;
    return testing::AssertionFailure()
           << fmt::format("element {} of {} is {}, expected {}", i, actual.shape().to_string(),
                          a.to_string(), e.to_string());
  }
  return testing::AssertionSuccess();
}

#define EXPECT_TENSOR(actual, expected) EXPECT_TRUE(SameTensor(actual, expected))
#define EXPECT_NEAR_TENSOR(actual, expected, ulps) EXPECT_TRUE(SameTensor(actual, expected, ulps))

}  // namespace hammock
