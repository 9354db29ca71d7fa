#pragma once

#include <functional>
#include <span>
#include <vector>

#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"

namespace hammock {

/// Runs a graph of primitives on host tensors; reference::Interpret is one. May throw Errors.
using Evaluate =
    std::function<std::vector<HostTensor>(const Graph& graph, std::span<const HostTensor> inputs)>;

/// Replaces nodes whose operands are known by constants, or by a broadcast of one where all
/// elements are equal; there is no constant of several values. Values of more than 64 elements are
/// not looked at. Only what every backend computes to the same bits is folded: arithmetic that is
/// rounded once, integers, comparisons, shapes; no exp, no sum of floats, no NaN. What raises is
/// left to raise when it runs.
Graph Fold(Graph graph, const Evaluate& evaluate);

}  // namespace hammock
