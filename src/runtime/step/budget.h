#pragma once
/// When recorded ops are run although nobody has asked for them.
///
/// Note [Budgets]: inside a `step` only memory counts. A thread adds up the bytes of pending values
/// that tensors and the tape hold; at half of the memory that is free, and whenever they have
/// doubled, the pending graph is lowered, scheduled and its memory planned, without code. Only a
/// planned peak above what is free runs a part of it: the part after which the fewest bytes are
/// live. Plans are remembered by key.
///
/// Outside of steps a thread's pending ops are also run at the first natural end after some 2000
/// nodes. A loop then is cut after the same op every time, so that it compiles a few graphs only.
/// Where such cuts had to be compiled again and again, each iteration of the loop has sizes of
/// its own, and a graph of several iterations never comes again: from then on every end is a place
/// to cut.
/// Of several kinds of ends in a loop the strongest counts. A read right behind a `backward` or an
/// optimiser's `step` runs all that is pending instead of what it needs alone, so that the loop
/// goes on from a clean start. A loop without natural ends is cut where its last 64 ops equal those
/// before an earlier cut; `trim_graph_size` nodes are run in any case.
///
/// Note [Initial state]: parameters, buffers and the state of optimisers are recorded like all
/// else. Before the first `step` or call of a module, what makes them is run as a graph of its own:
/// with it the first step would be another graph than the later ones, which find data, and would be
/// compiled for one use.

#include <cstdint>

#include "hammock/location.h"

namespace hammock {

class Node;
class Tensor;
struct ThreadContext;
class BudgetState;

/// From the weakest to the strongest.
enum class NaturalEnd : uint8_t { kRead, kModuleCall, kBackward, kOptimizerStep };

/// Called at such an end, outside of expansions. Runs what the thread has pending if it is time. Of
/// the ends of one kind in a loop those with the `line` of the last cut count.
void AtNaturalEnd(NaturalEnd end, LocationId line = 0);
/// Called after an op that reached one of the context's limits.
void CheckBudgets(ThreadContext& context, const Node& recorded);
/// The tensor is kept from step to step.
void MarkState(const Tensor& tensor);
/// Called before a `step` and before an outermost call of a module.
void RunNewState();

}  // namespace hammock
