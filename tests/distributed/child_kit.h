#pragma once
/// What the programs of ranks check with.

#include <hammock/hammock.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace hammock::testing {

inline void Check(bool holds, const std::string& what, Location at = Location::current()) {
  if (holds) return;
  std::cerr << "line " << at.line() << ": " << what << std::endl;
  std::_Exit(1);
}

inline void CheckEqual(const Tensor& tensor, const std::vector<double>& expected,
                       Location at = Location::current()) {
  HostTensor host = tensor.to(DType::kF64).host();
  std::vector<double> got(host.values<double>().begin(), host.values<double>().end());
  std::string text;
  for (double value : got) text += std::to_string(value) + " ";
  Check(got == expected, "got " + text, at);
}

inline Tensor Own(std::vector<float> values) {
  const Dims sizes = {static_cast<int64_t>(values.size())};
  return from_host(HostTensor::From(values, sizes));
}

inline void CheckClose(const std::vector<double>& got, const std::vector<double>& expected,
                       double tolerance, const std::string& what,
                       Location at = Location::current()) {
  Check(got.size() == expected.size() && !got.empty(), what + ": another number of values", at);
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - expected[i]) / std::max(1.0, std::abs(expected[i]));
    Check(error <= tolerance,
          what + ": value " + std::to_string(i) + " is " + std::to_string(got[i]) + ", expected " +
              std::to_string(expected[i]) + ", off by " + std::to_string(error),
          at);
  }
}

inline std::vector<double> Values(const Tensor& tensor) {
  HostTensor host = tensor.to(DType::kF64).host();
  return {host.values<double>().begin(), host.values<double>().end()};
}

/// What several ranks compute is that of one, up to the order of sums.
inline constexpr double kSame = 1e-9;
inline constexpr int kSteps = 8;

inline Tensor Data(const Dims& sizes, uint64_t seed) {
  return randn(sizes, DType::kF64, {}, Generator(seed));
}

/// Runs the scenario that the command line names.
inline int RunScenario(const std::map<std::string, void (*)()>& scenarios, const char* name) {
  try {
    scenarios.at(name)();
  } catch (const std::exception& error) {
    std::cerr << "unexpected: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}

}  // namespace hammock::testing
