#pragma once
/// One update of one parameter by each optimiser: a single node while it is recorded, elementwise
/// ops once it is lowered.
///
/// All have the operands `self`, `grad`, `lr`, then what the rule reads (f64[], absent where it is
/// not wanted), then the state that the optimiser keeps for the parameter. The results are the new
/// `self` and the new state, in the same order.

#include "hammock/ir/op_def.h"

namespace hammock::ops {

extern const OpDef kSgdUpdate, kAdamUpdate, kAdamaxUpdate, kNadamUpdate, kRadamUpdate,
    kRmspropUpdate, kAdagradUpdate, kAdadeltaUpdate, kLionUpdate, kEmaUpdate;

}  // namespace hammock::ops
