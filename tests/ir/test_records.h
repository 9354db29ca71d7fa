#pragma once
/// Records that these tests register as a library out of tree would.

#include "hammock/ir/op_def.h"

namespace hammock {

/// At version 2: its attribute was a percentage and is a factor.
extern const OpDef kScaled;
/// The same without an upgrade.
extern const OpDef kNotUpgraded;
/// A node with every kind of operand and attribute.
extern const OpDef kEveryKind;
/// Two overloads of one function.
extern const OpDef kTwiceInt;
extern const OpDef kTwiceStr;

}  // namespace hammock
