#pragma once
/// Parts that the families of losses share. The caller has opened a LocationScope.

#include <string>

#include "hammock/tensor.h"

namespace hammock::ops {

/// ValueError unless it is none, mean or sum.
void CheckReduction(const char* op, const std::string& reduction);
Tensor Reduced(const Tensor& loss, const std::string& reduction);

}  // namespace hammock::ops
