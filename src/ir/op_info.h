#pragma once

#include <memory>

#include "hammock/ir/op_def.h"

namespace hammock {

/// Parses and checks a record: ValueError where it contradicts its schema.
std::unique_ptr<OpInfo> MakeOpInfo(const OpDef& def);

}  // namespace hammock
