#pragma once
/// The table of in-tree op records. The registry registers them at its first use.

#include <span>

#include "hammock/ir/op_def.h"

namespace hammock::ops {

/// Every record of this library, by family.
std::span<const OpDef* const> InTreeOps();

}  // namespace hammock::ops
