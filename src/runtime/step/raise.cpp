// How errors of steps reach users: kept until a thread hears of them, raised once, with what failed
// undone.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <vector>

#include "base/location_scope.h"
#include "base/never_destroyed.h"
#include "base/process_exit.h"
#include "runtime/step/executor.h"
#include "runtime/step/settle_units.h"

namespace hammock {

namespace {

/// Held while what failed is undone. A thread that meets an error which another one has heard
/// waits here, so that it goes on with all tensors as they were.
std::mutex& Undoing() {
  static auto& mutex = NeverDestroyed<std::mutex>();
  return mutex;
}

bool IsUnseen(DeviceEntry& device, const std::shared_ptr<const Error>& error) {
  std::lock_guard lock(device.error_mutex);
  return std::ranges::find(device.unseen_errors, error, &DeviceEntry::UnseenError::error) !=
         device.unseen_errors.end();
}

/// To raise an error means to change handles, which belong to the thread that uses them. So a
/// barrier leaves those of others, which hear of it themselves, unless they have ended or steps of
/// this thread used what failed.
bool IsForBarrier(const DeviceEntry::UnseenError& unseen) {
  return !unseen.owner || unseen.owner == &Context() || HasEnded(*unseen.owner) ||
         FailsUnitOf(Context(), unseen.error);
}

}  // namespace

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

int StepExecutor::Undo(const std::shared_ptr<const Error>& error) {
  std::lock_guard lock(Undoing());
  int undone = UndoFailed(error);
  for (DeviceEntry* device : AllDevices()) ForgetUnseen(*device, error);
  return undone;
}

void StepExecutor::UndoOpenUnit(ThreadContext& context) {
  if (context.units.empty()) return;
  const WriteUnitPtr unit = context.units.back();
  if (unit->state != WriteUnit::State::kOpen || ValuesOf(*unit).empty()) return;
  SealUnit(context);
  auto error = std::make_shared<ValueError>(
      ErrorCode::kValue,
      "the value was written in a step that an exception has left: what the step wrote "
      "is undone");
  {
    std::lock_guard lock(graph_mutex);
    FailUnit(*unit, error);
  }
  Undo(error);
  std::erase(context.units, unit);
}

/// A step may fail in several ops of one line: those of a loss, and those of its gradients. The
/// first one that was found has left the rest pending, so that is computed now.
int StepExecutor::UndoOthers(const Error& raised) {
  std::vector<std::shared_ptr<const Error>> others;
  if (std::vector<WriteUnitPtr> left = LeftPending(Context()); !left.empty()) {
    std::vector<Value> roots;
    for (const WriteUnitPtr& unit : left) {
      std::ranges::move(ValuesOf(*unit), std::back_inserter(roots));
    }
    UnheardErrors unheard;
    try {
      Sync(roots, {.trigger = "what a failed step left", .wait = true});
    } catch (...) {  // noted as any failure of a step
    }
  }
  if (raised.where().empty()) return 0;  // of no line
  for (DeviceEntry* device : AllDevices()) {
    std::lock_guard lock(device->error_mutex);
    for (const DeviceEntry::UnseenError& unseen : device->unseen_errors) {
      if (unseen.owner == &Context() && unseen.error->where() == raised.where()) {
        others.push_back(unseen.error);
      }
    }
  }
  int undone = 0;
  for (const std::shared_ptr<const Error>& other : others) undone += Undo(other);
  return undone;
}

void StepExecutor::RaiseSeen(const std::shared_ptr<const Error>& error) {
  process_exit::AwaitEndIfCancelled(*error);
  if (UnheardErrors::AreOn()) error->Raise();
  int undone = Undo(error);
  undone += UndoOthers(*error);
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
      if (!reason) AddUnseen(EntryOf(DeviceOf(*unit)), unit->owner, failure);
    }
  }
  if (!failure) TrySettle(unit);
  return true;
}

void StepExecutor::RaiseUnseen(DeviceEntry& device, const ThreadContext* owner) {
  auto find = [&]() -> std::shared_ptr<const Error> {
    std::vector<DeviceEntry::UnseenError> all;
    {
      std::lock_guard lock(device.error_mutex);
      all = device.unseen_errors;
    }
    for (const DeviceEntry::UnseenError& unseen : all) {
      if (owner ? unseen.owner == owner : IsForBarrier(unseen)) return unseen.error;
    }
    return nullptr;
  };
  while (std::shared_ptr<const Error> error = find()) {
    { std::lock_guard undone(Undoing()); }
    if (IsUnseen(device, error)) RaiseSeen(error);
  }
}

void StepExecutor::RaiseUnseenOf(const ThreadContext& owner) {
  if (unseen_errors_.load() == 0) return;
  for (DeviceEntry* entry : AllDevices()) RaiseUnseen(*entry, &owner);
}

}  // namespace hammock
