#pragma once
/// The small problem whose course pytorch.json holds.

#include <cstdint>
#include <fstream>
#include <vector>

#include "hammock/hammock.h"
#include "hammock/optim.h"
#include "nlohmann/json.hpp"
#include "support/source_path.h"

namespace hammock::optim {

inline std::vector<double> WeylValues(int64_t count, double scale, double shift) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(
        (static_cast<double>(static_cast<uint32_t>(i * 2654435761)) / 4294967296.0 - shift) *
        scale);
  }
  return values;
}

struct Problem {
  Tensor w = tensor(WeylValues(12, 2.0, 0.4), {3, 4}).requires_grad_();
  Tensor b = tensor(WeylValues(4, 1.0, 0.5), {4}).requires_grad_();
  Tensor x = tensor(WeylValues(15, 3.0, 0.5), {5, 3});
  Tensor y = tensor(WeylValues(20, 1.0, 0.3), {5, 4});

  Tensor Loss() const { return mean(square(tanh(matmul(x, w) + b) - y)); }
};

inline const nlohmann::json& PyTorchResults() {
  static const nlohmann::json results = [] {
    std::ifstream file(testing::SourcePath("tests/optim/pytorch.json"));
    return nlohmann::json::parse(file);
  }();
  return results;
}

}  // namespace hammock::optim
