#pragma once
/// Contractions (matmuls and convolutions) take the kernels that follow them: a kernel that visits
/// each element of a contraction's result once becomes its epilogue, which runs on every part of
/// the result as soon as that is computed, while it is in the cache. A result that no other command
/// reads never reaches memory.

#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

/// The result of a contraction as a matrix: rows of so many elements that lie one after another. Of
/// a dot_general these are its last free dims, of a convolution the pixels of an image, or its
/// channels where these are last. 0: not a contraction.
int64_t ResultColumns(const Graph& graph, NodeId node);

/// A contraction moves to where its first reader was; all other commands stay in their order. No
/// result changes: an epilogue does what the kernel did, and reductions are over whole rows.
void AttachEpilogues(const Graph& graph, Schedule& schedule);

}  // namespace hammock::compiler
