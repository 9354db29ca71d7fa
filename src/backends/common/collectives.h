#pragma once

#include <span>
#include <string>

#include "distributed/running_step.h"
#include "hammock/lazy/collectives.h"
#include "ops/primitives/collectives.h"

namespace hammock {

/// The primitives between the ranks of a group.
std::span<const OpDef* const> CollectiveOps();

/// "all_reduce [at train.cpp:7]"
std::string DescribeCollective(const GraphNode& node);

/// The ranks that a rank sends to and receives from in a `collective_permute`; -1: none.
struct Partners {
  int to = -1, from = -1;
};
Partners PartnersOf(const GraphNode& permute, int rank);

/// ValueError if the node was recorded for another number of ranks.
void CheckRanks(const GraphNode& node, const distributed::Group::State& group);

/// Counts a merged collective whose values travel in one message.
void CountMergedCollective();

/// Makes the collectives of a run known to its kernels on this thread, which no RunContext reaches.
class CollectiveScope {
 public:
  explicit CollectiveScope(distributed::StepAgreements* collectives);
  ~CollectiveScope();
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;

  /// The agreements of the innermost scope of this thread; null where there are none.
  static distributed::StepAgreements* Current();

 private:
  distributed::StepAgreements* const outer_;
};

/// As that of hammock/lazy/collectives.h, in the scope of its run; `scratch` has CollectiveScratch
/// bytes.
void RunCollective(const GraphNode& node, const Shape& type, const void* in, void* out,
                   char* scratch);
int64_t CollectiveScratch(const GraphNode& node, const Shape& type);

}  // namespace hammock
