#pragma once
/// Graphs of the sample calls that records carry.

#include <utility>
#include <vector>

#include "hammock/ir/graph.h"

namespace hammock {

/// One input per operand of the sample, and the node.
Graph GraphOfSample(const OpDef& op, const Sample& sample);

/// The samples of all records, by name; elementwise ones without any get one of f32 operands, or
/// i32 where floats are refused.
std::vector<std::pair<const OpDef*, Sample>> AllSamples();

}  // namespace hammock
