#pragma once

#include <span>
#include <vector>

#include "hammock/ir/op_def.h"

namespace hammock {

/// As InferShapes of op_def.h, into an empty list whose memory is used again.
void InferShapes(const OpDef& op, std::span<const Shape* const> in, std::span<const Attr> attrs,
                 std::vector<Shape>& out);

}  // namespace hammock
