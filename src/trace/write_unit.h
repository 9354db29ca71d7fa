#pragma once
/// Units of in-place writes: a thread's writes of one step happen together or not at all.
///
/// Note [Units of writes]: recording a write gives its tensor (or alias group) another value at
/// once; the unit remembers the value from before. A unit is open while its step is recorded,
/// sealed when the step is marked (outside of steps also when something is read), and settled when
/// every value that it wrote is computed and every unit whose results it used is settled: then what
/// it remembers is dropped. If an op that one of its writes depends on fails, the unit fails, and
/// so do units that used its results. Nothing changes for the user until the error is raised; then
/// all writes of all units that failed by it are undone, and a read of any value that depends on
/// them raises the same error. Writes of later units that do not depend on it stand.
///
/// The values that a unit remembers cost no memory in the usual case: a step that settles a whole
/// unit may overwrite the values from before (see StepExecutor::Claim), since it writes there only
/// when nothing can fail any more.
///
/// Locks: the graph mutex comes before the units' mutex, an alias group's too. Values are let go
/// of when neither is held.

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/link.h"
#include "base/pool.h"
#include "hammock/error.h"
#include "hammock/ir/node.h"

namespace hammock {

struct ThreadContext;
struct Undo;

/// A tensor with memory of its own, or an alias group.
struct WriteTarget {
  Undo* undo = nullptr;  ///< newest first; guarded by the units' mutex
};

/// One unit's writes to one target.
struct Undo : Link {
  std::shared_ptr<struct WriteUnit> unit;
  WriteTarget* target = nullptr;
  bool is_group = false;
  Undo* above = nullptr;  ///< of a later unit, to the same target
  Undo* below = nullptr;
  Value before;              ///< empty: the unit made the target
  Node* written = nullptr;   ///< held by the target, or by `above->before`
  bool is_shared = false;    ///< the value is another tensor's too
  bool has_history = false;  ///< the write replaced the target's history

  static void* operator new(size_t bytes) { return pool::Allocate(bytes); }
  static void operator delete(void* memory, size_t bytes) { pool::Free(memory, bytes); }
};

struct WriteUnit {
  enum class State { kOpen, kSealed, kFailed, kSettled };
  State state = State::kOpen;
  Link writes;                         ///< of Undo
  std::shared_ptr<const Error> error;  ///< why it failed
  ThreadContext* owner = nullptr;
  std::vector<std::shared_ptr<WriteUnit>> needs;  ///< unsettled units whose results it uses
  int in_flight = 0;                              ///< steps that compute values of it
  /// If its steps are computed, nothing else can fail it: one step does it all, and that step sees
  /// the failures of the units that it needs.
  bool is_atomic = true;
  std::list<std::shared_ptr<WriteUnit>>::iterator listed;
};
using WriteUnitPtr = std::shared_ptr<WriteUnit>;
using UnitSpan = std::span<const WriteUnitPtr>;

// ---- Recording

/// The calling thread's open unit notes a write, before which the target's value was `before`.
/// Nothing is noted while a function is captured or mapped; eager mode forgets earlier writes.
void NoteWrite(WriteTarget& target, bool is_group, Value before, const Value& written,
               bool is_shared);
/// The target is going, or is about to be given a value that no unit may undo: units refer to what
/// they wrote, and the target holds it.
void ForgetWrites(WriteTarget& target);
/// A tensor's memory becomes a group's.
void MoveWrites(WriteTarget& tensor, WriteTarget& group);
/// Later writes of the thread belong to another unit.
void SealUnit(ThreadContext& context);
/// The thread's open unit, a new one if there is none.
WriteUnitPtr CurrentUnit(ThreadContext& context);
/// Whether the latest write to the target is the unit's.
bool IsWrittenBy(const WriteTarget& target, const WriteUnitPtr& unit);

// ---- The list of units, for src/runtime/step/settle_units.cpp

struct WriteUnits {
  std::mutex mutex;
  std::list<WriteUnitPtr> unsettled;  ///< in order of creation
};
WriteUnits& AllUnits();

/// Erased entries with the values that they remember, freed where no lock is held.
struct ErasedWrites : Link {
  ~ErasedWrites();
};
/// Takes an entry out of its unit and of its target's list.
void Erase(Undo& undo, ErasedWrites& erased);

template <class Fn>
void ForEachWrite(const WriteUnit& unit, Fn fn) {
  for (Link* link = unit.writes.next; link != &unit.writes;) {
    auto* undo = static_cast<Undo*>(link);
    link = link->next;
    fn(*undo);
  }
}

}  // namespace hammock
