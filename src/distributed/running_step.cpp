#include "distributed/running_step.h"

#include <utility>

#include "base/throw.h"

namespace hammock::distributed {

void StepAgreements::Add(std::shared_ptr<Group::State> group, AgreementPtr agreement) {
  entries_.push_back({std::move(group), std::move(agreement)});
}

void StepAgreements::Succeed() {
  for (Entry& entry : entries_) entry.group->steps.fetch_add(1);
}

void StepAgreements::Fail(const std::string& reason) {
  for (Entry& entry : entries_) entry.group->Abort(reason);
}

CollectiveCall::CollectiveCall(const StepAgreements* step, const std::string& group_name)
    : group(FindGroup(group_name)) {
  if (step) {
    for (const StepAgreements::Entry& entry : step->entries_) {
      if (entry.group == group) agreement = entry.agreement;
    }
  }
  if (!agreement && group->size() == 1) agreement = group->Begin({}, "", nullptr);
  if (!agreement) {
    Throw(ErrorCode::kExecutionForbidden,
          "a collective of group '{}' runs outside of the steps that its ranks agree on",
          group_name);
  }
  agreement->Await();
}

}  // namespace hammock::distributed
