#include "backends/cpu/matmul/operand_copy.h"

#include <fmt/format.h>

#include "backends/cpu/matmul/matmul_kernel.h"

namespace hammock::cpu {

OperandCopy::OperandCopy(DType dtype, const Dims& sizes, const Dims& strides)
    : copy_(BytesOf(dtype, 1), sizes, strides, ContiguousStrides(sizes)),
      bytes_(RoundUp(BytesOf(dtype, Product(sizes)), 64)),
      key_(fmt::format("{} {} {}", NameOf(dtype), ToString(sizes), ToString(strides))) {}

}  // namespace hammock::cpu
