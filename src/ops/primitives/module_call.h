#pragma once

#include "hammock/ir/op_def.h"

namespace hammock::ops {

/// module_call(Tensor[] operands) {body: Graph, path, method, arguments}: a call of a submodule
/// that a delegate runs. A composite: it expands into its body where a graph is lowered as a whole.
extern const OpDef kModuleCall;

}  // namespace hammock::ops
