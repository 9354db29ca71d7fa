#pragma once
/// Costs that records share.

#include <cstdint>

#include "hammock/ir/op_def.h"

namespace hammock::ops {

/// Flops of ops that combine the elements of their operand.
inline int64_t OnePerElement(const CostCall& call) { return call.in[0]->numel(); }

/// Bytes of ops that read of their first operand as many elements as the result has, and all of the
/// others.
inline int64_t OfSelected(const CostCall& call) {
  int64_t bytes = 2 * call.out[0].bytes();
  for (const Shape* type : call.in.subspan(1)) bytes += type->bytes();
  return bytes;
}

}  // namespace hammock::ops
