#pragma once

#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

/// Equal kernels of a schedule become one object: a program of a thousand layers keeps few, and a
/// backend can tell by the address that it has code for one.
void ShareKernels(Schedule& schedule);

}  // namespace hammock::compiler
