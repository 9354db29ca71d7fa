#include "distributed/running_step.h"

#include <utility>

#include "base/throw.h"

namespace hammock::distributed {
namespace {

constinit thread_local StepActs* running = nullptr;

}  // namespace

void StepActs::Add(std::shared_ptr<Group::State> group, ActPtr act) {
  entries_.push_back({std::move(group), std::move(act)});
}

void StepActs::Succeed() {
  for (Entry& entry : entries_) entry.group->steps.fetch_add(1);
}

void StepActs::Fail(const std::string& reason) {
  for (Entry& entry : entries_) entry.group->Abort(reason);
}

StepActs::Scope::Scope(StepActs* acts) : outer_(std::exchange(running, acts)) {}
StepActs::Scope::~Scope() { running = outer_; }

CollectiveCall::CollectiveCall(const std::string& group_name) : group(FindGroup(group_name)) {
  if (running) {
    for (const StepActs::Entry& entry : running->entries_) {
      if (entry.group == group) act = entry.act;
    }
  }
  if (!act && group->size() == 1) act = group->Begin({}, "", nullptr);
  if (!act) {
    Throw(ErrorCode::kExecutionForbidden,
          "a collective of group '{}' runs outside of the steps that its ranks agree on",
          group_name);
  }
  act->Await();
}

}  // namespace hammock::distributed
