#pragma once
/// The state of something as named tensors, and the one way in which it is given another.

#include <map>
#include <string>

#include "hammock/export.h"
#include "hammock/tensor.h"

namespace hammock {

using StateDict = std::map<std::string, Tensor>;
using StateShapes = std::map<std::string, Shape>;

HAMMOCK_API StateShapes ShapesOf(const StateDict& state);

/// How `given` differs from what is expected, one line for each name that is missing, unexpected,
/// or of another dtype or shape; empty if it fits. Unless `strict`, names that only one side has
/// are left out, and so are dtypes.
HAMMOCK_API std::string StateDifferences(const StateShapes& expected, const StateShapes& given,
                                         bool strict = true);

/// Copies each tensor of `from` into that of the same name in `into`. Where they differ, all
/// differences are listed in a ValueError that `what` begins, and nothing is copied. Unless
/// `strict`, what both sides have is copied, and cast.
HAMMOCK_API void CopyState(const StateDict& into, const StateDict& from, const std::string& what,
                           bool strict = true);

}  // namespace hammock
