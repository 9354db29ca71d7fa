#pragma once
/// Makes a case that fails smaller: fewer outputs, nodes and elements, plainer values.

#include <functional>

#include "fuzz/case.h"

namespace hammock::fuzz {

/// `fails` holds for the case and for what is returned.
Case Shrink(Case test, const std::function<bool(const Case&)>& fails);

}  // namespace hammock::fuzz
