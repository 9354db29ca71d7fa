#pragma once
/// The collectives of steps: what ranks compare before a step runs. See Note [Agreement] in
/// distributed/group.h.

#include <memory>
#include <span>
#include <vector>

#include "distributed/running_step.h"
#include "runtime/cache/computation_cache.h"

namespace hammock {

/// Begins to agree with the other ranks on the collectives of a step: those among `nodes`, in
/// order, or of the traced graph where no nodes are given. Null where there are none. Raises
/// nothing: the step's first collective does.
std::shared_ptr<distributed::StepAgreements> BeginAgreements(const CompiledStepPtr& compiled,
                                                             std::span<Node* const> nodes);

/// While one lives, other ranks of the groups that a graph has collectives of do not count the time
/// in which they wait for this one.
class CompilingCollectives {
 public:
  explicit CompilingCollectives(const Graph& graph);

 private:
  std::vector<std::unique_ptr<distributed::Group::State::Busy>> busy_;
};

/// The noted collectives of a device that a sync of `roots` runs, in the order of recording: those
/// that the roots need, or all of them. With the graph mutex held.
std::vector<Node*> CollectivesOf(std::span<const Value> roots, DeviceId device, bool all);
/// Forgets collectives that a step has taken over, or whose value is computed. With the graph mutex
/// held; the caller drops the result without it.
[[nodiscard]] std::vector<NodePtr> ForgetCollectives(uint32_t epoch);
/// The same for those that depend on a value that has failed: no step can run them.
[[nodiscard]] std::vector<NodePtr> ForgetFailedCollectives();

/// An exception has left a step of this thread: no step will run the collectives that it has
/// noted, in which other ranks wait. Their groups end, so that all ranks hear of it, when the steps
/// before have ended.
void AbandonCollectives();

}  // namespace hammock
