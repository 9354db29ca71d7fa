#pragma once
/// Parts that the families of contractions share.

#include "hammock/tensor.h"

namespace hammock::ops {

/// One dot_general node.
Tensor Contract(const Tensor& a, const Tensor& b, const Dims& a_contract, const Dims& b_contract,
                const Dims& a_batch, const Dims& b_batch);

}  // namespace hammock::ops
