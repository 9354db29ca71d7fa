#pragma once
/// The collectives of a step that runs, as RunContext hands them to its backend.

#include <memory>
#include <string>
#include <vector>

#include "distributed/group.h"

namespace hammock::distributed {

/// The agreements of a step: one for each group that it has collectives of.
class StepAgreements {
 public:
  void Add(std::shared_ptr<Group::State> group, AgreementPtr agreement);
  /// The step has ended well.
  void Succeed();
  /// The step has failed: ranks that wait for it hear of it.
  void Fail(const std::string& reason);

 private:
  friend struct CollectiveCall;
  struct Entry {
    std::shared_ptr<Group::State> group;
    AgreementPtr agreement;
  };
  std::vector<Entry> entries_;
};

/// A collective that a kernel is about to run: its ranks have agreed on the step.
struct CollectiveCall {
  /// Waits for the group's agreement among those of the step, which may be null; raises where there
  /// is none.
  CollectiveCall(const StepAgreements* step, const std::string& group_name);

  std::shared_ptr<Group::State> group;
  AgreementPtr agreement;
};

}  // namespace hammock::distributed
