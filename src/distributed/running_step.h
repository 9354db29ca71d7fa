#pragma once
/// The collectives of a step that runs, as their kernels find them.

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
  /// The agreements of the step that this thread runs; null: it has none.
  static StepAgreements* Running();

  /// While one lives, kernels of this thread run collectives of these agreements.
  class Scope {
   public:
    explicit Scope(StepAgreements* agreements);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StepAgreements* const outer_;
  };

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
  /// Waits for the agreement; raises where there is none.
  explicit CollectiveCall(const std::string& group_name);

  std::shared_ptr<Group::State> group;
  AgreementPtr agreement;
};

}  // namespace hammock::distributed
