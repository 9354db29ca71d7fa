#pragma once

#include <span>

#include "hammock/ir/graph.h"

namespace hammock {

/// The primitives between the ranks of a group.
std::span<const OpDef* const> CollectiveOps();

/// Runs the node of a collective on row-major elements in host memory. `in` has the type `type`.
void RunCollective(const GraphNode& node, const Shape& type, const void* in, void* out);

}  // namespace hammock
