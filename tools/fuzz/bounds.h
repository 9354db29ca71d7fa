#pragma once
/// How far a result of the CPU backend may lie from that of the reference interpreter, for one node
/// and the same operands. Note [Bounds] in bounds.cpp says why each bound holds.

#include <string>
#include <vector>

#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"

namespace hammock::fuzz {

/// The graph has one node besides inputs. Empty if all results are right.
std::string CompareNode(const Graph& one, const std::vector<HostTensor>& operands,
                        const std::vector<HostTensor>& actual,
                        const std::vector<HostTensor>& expected);

/// The first element whose bits differ, NaN apart; empty if there is none.
std::string CompareBits(const HostTensor& actual, const HostTensor& expected);

}  // namespace hammock::fuzz
