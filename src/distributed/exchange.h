#pragma once
/// Collectives on elements in host memory, made of an engine's calls.
///
/// Note [Order of sums]: unless the engine reduces by itself, every element is reduced on one rank,
/// in the order of ranks. So neither the size of a message nor how it is cut changes a bit, and
/// tensors may be sent together that were sent apart before. f16 and bf16 travel as they are and
/// are accumulated in f32, with one rounding at the end.

#include <cstddef>
#include <span>

#include "distributed/group.h"
#include "hammock/ir/shape.h"

namespace hammock::distributed {

/// Whether elements of the dtype can be reduced so.
bool CanReduce(DType dtype, Reduction reduction);

/// Bytes that a reduction of `count` elements of a rank needs besides operand and result.
size_t AllReduceScratch(size_t count, DType dtype, size_t ranks);
size_t ReduceScatterScratch(size_t count, DType dtype, size_t ranks);

/// `out` may be `in`. `what` names the collective in errors.
void AllReduce(Agreement& agreement, Group::State& group, const std::string& what, const void* in,
               void* out, size_t count, DType dtype, Reduction reduction, char* scratch);
/// `count` elements of `out`; `in` has as many for each rank.
void ReduceScatter(Agreement& agreement, Group::State& group, const std::string& what,
                   const void* in, void* out, size_t count, DType dtype, Reduction reduction,
                   char* scratch);
/// As the engine's calls of these names, for messages of any size; AllToAll writes this rank's own
/// part of `out` too.
void AllGather(Agreement& agreement, Group::State& group, const std::string& what, const void* in,
               void* out, size_t bytes);
void AllToAll(Agreement& agreement, Group::State& group, const std::string& what, const void* in,
              void* out, size_t bytes);
void Broadcast(Agreement& agreement, Group::State& group, const std::string& what, void* data,
               size_t bytes, int root);
void Permute(Agreement& agreement, Group::State& group, const std::string& what, const void* in,
             int to, void* out, int from, size_t bytes);

}  // namespace hammock::distributed
