#pragma once
/// Which memory a kernel may write its result into: that of operands of which it reads each element
/// before it writes the one in its place.

#include <vector>

#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

/// The access by which a kernel writes `buffer`, and the stage; null where there are several, or
/// where it goes past the caches.
const Instr* StoreOf(const Launch& launch, BufferId buffer);

/// The buffers among a command's reads whose memory its kernel may overwrite with `result`. A call
/// that the kernel follows may read some of them too.
std::vector<BufferId> OverwrittenBy(const Command& command, BufferId result);

}  // namespace hammock::compiler
