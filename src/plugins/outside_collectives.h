#pragma once
/// Collectives of a C++ backend whose copy of the library has no ranks, by the program's.

#include "hammock/ir/graph.h"
#include "hammock/plugin.h"

namespace hammock::plugins {

/// Whether HammockCollective has all attributes of a collective.
bool CrossesWhole(const OpDef& op);

/// RunCollective by the host.
void RunOutside(const HammockHost& host, const GraphNode& node, const Shape& type, const void* in,
                void* out);

}  // namespace hammock::plugins
