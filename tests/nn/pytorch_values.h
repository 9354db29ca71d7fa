#pragma once
/// Values that the scripts beside this file give to PyTorch, and comparison with what it gave.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "hammock/hammock.h"
#include "nlohmann/json.hpp"
#include "support/source_path.h"

namespace hammock::nn {

using Json = nlohmann::json;
using Tensors = std::vector<Tensor>;

inline Json ReadJson(const std::string& name) {
  std::ifstream file(testing::SourcePath("tests/nn/" + name));
  return Json::parse(file);
}

inline Tensor Values(const Dims& sizes, int64_t seed, double scale = 1) {
  HostTensor host(Shape(DType::kF64, sizes));
  for (int64_t i = 0; i < host.numel(); ++i) {
    auto word = static_cast<uint32_t>((i + 1000 * seed) * 2654435761);
    host.set(i, Scalar((word / 4294967296.0 - 0.5) * scale));
  }
  return from_host(host);
}

inline Dims DimsOf(const Json& sizes) {
  Dims dims;
  for (const Json& size : sizes) dims.push_back(size.get<int64_t>());
  return dims;
}

inline void ExpectValues(const Tensor& got, const Json& expected, const std::string& what) {
  std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    double value = expected[i].get<double>();
    ASSERT_NEAR(values[i], value, 1e-8 + 1e-7 * std::abs(value)) << what << " at " << i;
  }
}

/// Fills a module with the values that the scripts have.
inline void Fill(Module& module) {
  NoGradGuard no_grad;
  int64_t seed = 0;
  for (auto& [name, tensor] : module.state_dict()) {
    ++seed;
    if (!tensor.is_floating_point()) continue;
    Tensor values = Values(tensor.sizes(), seed);
    if (name.ends_with("running_var")) values = abs(values) + 0.5;
    Tensor target = tensor;
    target.copy_(values);
  }
}

}  // namespace hammock::nn
