// How errors of steps reach users: kept until a thread hears of them, raised once, with what failed
// undone.

#include <fmt/format.h>

#include <algorithm>

#include "base/location_scope.h"
#include "base/process_exit.h"
#include "lazy/executor.h"

namespace hammock {

void StepExecutor::AddUnseen(DeviceEntry& device, const ThreadContext* owner,
                             const std::shared_ptr<const Error>& error) {
  constexpr size_t kMostUnseen = 64;
  std::lock_guard lock(device.error_mutex);
  bool known = std::ranges::find(device.unseen_errors, error, &DeviceEntry::UnseenError::error) !=
               device.unseen_errors.end();
  if (!known && device.unseen_errors.size() < kMostUnseen) {
    device.unseen_errors.push_back({error, owner});
    ++unseen_errors_;
  }
}

void StepExecutor::ForgetUnseen(DeviceEntry& device, const std::shared_ptr<const Error>& error) {
  std::lock_guard lock(device.error_mutex);
  unseen_errors_ -= static_cast<int>(std::erase_if(
      device.unseen_errors, [&](const auto& unseen) { return unseen.error == error; }));
}

void StepExecutor::RaiseSeen(const std::shared_ptr<const Error>& error) {
  process_exit::AwaitEndIfCancelled(*error);
  for (DeviceEntry* device : AllDevices()) ForgetUnseen(*device, error);
  int undone = UndoFailed(error);
  std::shared_ptr<Error> raised = error->Clone();
  // Where nothing better is known: the read or sync that raises it.
  if (raised->where().empty()) raised->SetWhere(CurrentWhere());
  if (undone > 0) {
    raised->AddNote(fmt::format("{} undone: tensors updated in place have the values from before",
                                undone == 1 ? "the step is" : fmt::format("{} steps are", undone)));
  }
  raised->Raise();
  __builtin_unreachable();
}

bool StepExecutor::Close(const WriteUnitPtr& unit, std::shared_ptr<const Error> reason) {
  std::shared_ptr<const Error> failure;
  {
    std::lock_guard lock(graph_mutex);
    if (!unit->error && !IsStarted(*unit)) {
      failure = reason ? reason : FailureOf(*unit);
      if (!failure) return false;
      FailUnit(*unit, failure);
    }
  }
  if (failure && !reason) AddUnseen(EntryOf(DeviceOf(*unit)), unit->owner, failure);
  if (!failure) TrySettle(unit);
  return true;
}

void StepExecutor::RaiseUnseen(DeviceEntry& device, const ThreadContext* owner) {
  std::shared_ptr<const Error> error;
  {
    std::lock_guard lock(device.error_mutex);
    for (const DeviceEntry::UnseenError& unseen : device.unseen_errors) {
      if (owner && unseen.owner != owner) continue;
      error = unseen.error;
      break;
    }
  }
  if (error) RaiseSeen(error);
}

void StepExecutor::RaiseUnseenOf(const ThreadContext& owner) {
  if (unseen_errors_.load() == 0) return;
  for (DeviceEntry* entry : AllDevices()) RaiseUnseen(*entry, &owner);
}

}  // namespace hammock
