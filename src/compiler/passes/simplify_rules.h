#pragma once
/// The two tables of rules that Simplify applies.

#include <span>

#include "compiler/passes/rewrite.h"

namespace hammock {

std::span<const RuleFor> NumberRules();  ///< arithmetic, logic, casts
std::span<const RuleFor> ShapeRules();   ///< reshapes, broadcasts, permutes and their kind

}  // namespace hammock
