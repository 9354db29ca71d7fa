#pragma once
/// The fate of units of writes: settled, or failed and undone. See Note [Units of writes] in
/// trace/write_unit.h.

#include <memory>
#include <vector>

#include "trace/write_unit.h"

namespace hammock {

// ---- Executing. The graph mutex is held.

/// Adds `change` to the uses that the walk of this epoch has counted for each value that the units
/// remember: one that counts as used by the walk is no output of it, and may be donated.
void CountUndos(UnitSpan units, uint32_t epoch, int change);
/// The values that the units remember, sorted.
std::vector<const Node*> RememberedBy(UnitSpan units);
/// Marks the values that sealed units wrote, so that walks know whose they are.
void MarkWritten(UnitSpan units);
/// The error of the first failed op that a write of the unit depends on; else `inherited`, if a
/// write depends on a value that a step was to compute which failed by it; else null.
std::shared_ptr<const Error> FailureOf(const WriteUnit& unit,
                                       const std::shared_ptr<const Error>& inherited = nullptr);
/// Units that failed by one error fail by another, which whoever hears of both hears of first.
void ReplaceFailure(const std::shared_ptr<const Error>& old,
                    const std::shared_ptr<const Error>& error);
/// Whether a unit that is not undone has failed by the error.
bool FailsUnit(const std::shared_ptr<const Error>& error);
/// Whether it has failed and nothing of it is left to undo.
bool IsUndone(const WriteUnit& unit);
/// One that is open goes on and takes the step's later writes with it.
void FailUnit(WriteUnit& unit, std::shared_ptr<const Error> error);
/// Whether every value that the unit wrote is computed or under way.
bool IsStarted(const WriteUnit& unit);
/// Where the first of its values is; kNoDevice if there is none.
DeviceId DeviceOf(const WriteUnit& unit);

// ---- Outcomes. The graph mutex is free.

/// Settles the unit, if it may be, and those that waited for it.
void TrySettle(const WriteUnitPtr& unit);
/// Settles what can be of the units that no step is computing.
void SettleIdle();
/// The thread's sealed units of which a failed step has left something pending.
std::vector<WriteUnitPtr> LeftPending(const ThreadContext& owner);
std::vector<Value> ValuesOf(const WriteUnit& unit);
/// Whether a unit of the thread failed by the error, or used results of one that did.
bool FailsUnitOf(const ThreadContext& owner, const std::shared_ptr<const Error>& error);
/// Undoes the units that failed by `error` and those that used their results; how many.
int UndoFailed(const std::shared_ptr<const Error>& error);

}  // namespace hammock
