#include "distributed/running_step.h"

#include <utility>

#include "base/throw.h"

namespace hammock::distributed {
namespace {

constinit thread_local StepRounds* running = nullptr;

}  // namespace

void StepRounds::Add(std::shared_ptr<Group::State> group, RoundPtr round) {
  entries_.push_back({std::move(group), std::move(round)});
}

void StepRounds::Succeed() {
  for (Entry& entry : entries_) entry.group->steps.fetch_add(1);
}

void StepRounds::Fail(const std::string& reason) {
  for (Entry& entry : entries_) entry.group->Abort(reason);
}

StepRounds* StepRounds::Running() { return running; }

StepRounds::Scope::Scope(StepRounds* rounds) : outer_(std::exchange(running, rounds)) {}
StepRounds::Scope::~Scope() { running = outer_; }

CollectiveCall::CollectiveCall(const std::string& group_name) : group(FindGroup(group_name)) {
  if (running) {
    for (const StepRounds::Entry& entry : running->entries_) {
      if (entry.group == group) round = entry.round;
    }
  }
  if (!round && group->size() == 1) round = group->Begin({}, "", nullptr);
  if (!round) {
    Throw(ErrorCode::kExecutionForbidden,
          "a collective of group '{}' runs outside of the steps that its ranks agree on",
          group_name);
  }
  round->Await();
}

}  // namespace hammock::distributed
