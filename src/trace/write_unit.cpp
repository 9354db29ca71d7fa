#include "trace/write_unit.h"

#include "base/never_destroyed.h"
#include "hammock/config.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

using State = WriteUnit::State;

WriteUnitPtr OpenUnit(ThreadContext& context) {
  if (!context.units.empty() && context.units.back()->state == State::kOpen) {
    return context.units.back();
  }
  auto unit = std::make_shared<WriteUnit>();
  unit->owner = &context;
  WriteUnits& all = AllUnits();
  unit->listed = all.unsettled.insert(all.unsettled.end(), unit);
  context.units.push_back(unit);
  return unit;
}

}  // namespace

WriteUnits& AllUnits() {
  static auto& units = NeverDestroyed<WriteUnits>();
  return units;
}

ErasedWrites::~ErasedWrites() {
  while (!IsEmptyList()) {
    auto* undo = static_cast<Undo*>(next);
    undo->Remove();
    delete undo;
  }
}

void Erase(Undo& undo, ErasedWrites& erased) {
  undo.Remove();
  (undo.above ? undo.above->below : undo.target->undo) = undo.below;
  if (undo.below) undo.below->above = undo.above;
  undo.InsertBefore(&erased);
}

void NoteWrite(WriteTarget& target, bool is_group, Value before, const Value& written,
               bool is_shared) {
  ThreadContext& context = Context();
  if (context.made_leaves || context.mapping) return;
  if (context.eager > 0 || config::Get<config::kEager>()) return ForgetWrites(target);
  std::lock_guard lock(AllUnits().mutex);
  WriteUnitPtr unit = OpenUnit(context);
  Undo* undo = target.undo;
  if (!undo || undo->unit != unit) {
    undo = new Undo;
    undo->unit = unit;
    undo->target = &target;
    undo->is_group = is_group;
    undo->before = std::move(before);
    undo->below = target.undo;
    if (target.undo) target.undo->above = undo;
    target.undo = undo;
    undo->InsertBefore(&unit->writes);
  }
  undo->written = written.node.get();
  undo->is_shared = is_shared;
  undo->has_history |= context.grad_mode;
}

void ForgetWrites(WriteTarget& target) {
  if (!target.undo) [[likely]]
    return;
  ErasedWrites erased;
  std::lock_guard lock(AllUnits().mutex);
  while (target.undo) Erase(*target.undo, erased);
}

void MoveWrites(WriteTarget& tensor, WriteTarget& group) {
  if (!tensor.undo) return;
  std::lock_guard lock(AllUnits().mutex);
  group.undo = std::exchange(tensor.undo, nullptr);
  for (Undo* undo = group.undo; undo; undo = undo->below) {
    undo->target = &group;
    undo->is_group = true;
  }
}

void SealUnit(ThreadContext& context) {
  if (context.units.empty()) return;
  std::lock_guard lock(AllUnits().mutex);
  WriteUnit& last = *context.units.back();
  if (last.state == State::kOpen) last.state = last.error ? State::kFailed : State::kSealed;
}

WriteUnitPtr CurrentUnit(ThreadContext& context) {
  std::lock_guard lock(AllUnits().mutex);
  return OpenUnit(context);
}

bool IsWrittenBy(const WriteTarget& target, const WriteUnitPtr& unit) {
  std::lock_guard lock(AllUnits().mutex);
  return target.undo && target.undo->unit == unit;
}

}  // namespace hammock
