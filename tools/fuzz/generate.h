#pragma once
/// Random graphs of primitives, in the form that backends get: operands of elementwise ops have one
/// dtype and the sizes of the result.
///
/// Values that have more than one right answer are kept out: the sign and payload of a NaN do not
/// reach the ops that look at them (bitcast, the second operand of copysign), and no node can fail.

#include <cstdint>

#include "fuzz/case.h"

namespace hammock::fuzz {

/// The same seed gives the same case.
Case GenerateCase(uint64_t seed);

}  // namespace hammock::fuzz
