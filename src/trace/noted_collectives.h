#pragma once
/// Collectives that a thread has recorded.
///
/// Note [Recorded order]: ranks run collectives in the order in which they recorded them, whatever
/// else they compute. A walk follows operands, so its order depends on what else is pending. So
/// nodes of collectives are noted here, and walks visit those that they need first, in order. A
/// whole step runs all of them, also those whose result nobody has kept: other ranks may wait.
/// No step can run collectives that depend on a failed value; they are forgotten, and a read raises
/// the error of that value.

#include <vector>

#include "hammock/ir/node.h"
#include "hammock/tensor.h"

namespace hammock {

/// This thread's, in the order of recording, until a step takes them over.
std::vector<NodePtr>& NotedCollectives();

/// Notes the node of a collective's result, if it is to run; returns the result.
Tensor NoteCollective(Tensor result);

}  // namespace hammock
