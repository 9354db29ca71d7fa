#pragma once
/// Parameters that a layer may do without are undefined tensors; ops take them as optionals.

#include <optional>

#include "hammock/tensor.h"

namespace hammock::nn {

inline std::optional<Tensor> Given(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace hammock::nn
