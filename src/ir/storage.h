#pragma once

#include "hammock/ir/op_def.h"
#include "hammock/ir/storage_types.h"

namespace hammock {

/// Whether operands and results of a primitive may be of a storage type: it moves elements and
/// never looks at them, or it is the cast.
bool TakesStorage(const OpDef& op);
/// Whether it takes them as they are in memory: bitcasts, loops and barriers.
bool TakesStorageInMemory(const OpDef& op);

}  // namespace hammock
