#pragma once

#include <vector>

#include "hammock/ir/function.h"

namespace hammock {

/// The classes that come with the library, registered by the first use of any; see
/// src/jit/table.cpp.
std::vector<ClassDef> InTreeClasses();

}  // namespace hammock
