#pragma once
/// The records of one file, for the table: those that other code names, and the nameless ones.

#include <span>

#include "hammock/ir/op_def.h"

namespace hammock::ops {

struct OpFamily {
  std::span<const OpDef* const> nodes;
  std::span<const OpDef> functions;
};

OpFamily ArithmeticOps();
OpFamily CompareOps();
OpFamily SpecialOps();
OpFamily InPlaceOps();
OpFamily ActivationOps();
OpFamily CreateOps();
OpFamily RandomOps();

}  // namespace hammock::ops
