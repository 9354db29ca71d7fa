#pragma once
/// Products take the kernels that follow them: a kernel that visits each element of a product's
/// result once becomes the epilogue of the product, which runs it on every part of the result as
/// soon as that is computed, while it is in the cache. What no other command reads of the result
/// never reaches memory.

#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

/// The result of a product as a matrix: rows of so many elements that lie one after another. Of a
/// dot_general these are its last free dims, of a convolution the pixels of an image, or its
/// channels where these are last. 0: not a product.
int64_t ResultColumns(const Graph& graph, NodeId node);

/// A product moves to where its first reader was; all other commands stay in their order. No result
/// changes: an epilogue does what the kernel did, and reductions are over whole rows.
void AttachEpilogues(const Graph& graph, Schedule& schedule);

}  // namespace hammock::compiler
