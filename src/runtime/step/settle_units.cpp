#include "runtime/step/settle_units.h"

#include <algorithm>
#include <unordered_map>

#include "hammock/lazy/backend_data.h"
#include "ir/node_access.h"
#include "runtime/cache/walk.h"
#include "runtime/step/executor.h"
#include "trace/alias.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

using State = WriteUnit::State;

bool IsComputed(const Node& node) {
  if (node.IsLeaf() && !node.slots()[0].data) return true;
  for (int i = 0; i < node.num_outputs(); ++i) {
    const BackendDataPtr& data = node.slots()[i].data;
    if (!data || !data->IsReady() || data->error()) return false;
  }
  return true;
}

}  // namespace

void CountUndos(UnitSpan units, uint32_t epoch, int change) {
  if (units.empty()) return;
  std::lock_guard lock(AllUnits().mutex);
  for (const WriteUnitPtr& unit : units) {
    ForEachWrite(*unit, [&](const Undo& undo) {
      Node* node = undo.before.node.get();
      if (!node || NodeAccess::epoch(node) != epoch) return;
      NodeAccess::walk_uses(node) += static_cast<uint32_t>(change);
    });
  }
}

std::vector<const Node*> RememberedBy(UnitSpan units) {
  std::vector<const Node*> nodes;
  std::lock_guard lock(AllUnits().mutex);
  for (const WriteUnitPtr& unit : units) {
    ForEachWrite(*unit, [&](const Undo& undo) { nodes.push_back(undo.before.node.get()); });
  }
  std::ranges::sort(nodes);
  return nodes;
}

void MarkWritten(UnitSpan units) {
  if (units.empty()) return;
  std::lock_guard lock(AllUnits().mutex);
  for (const WriteUnitPtr& unit : units) {
    if (unit->state == State::kOpen) continue;
    ForEachWrite(*unit, [&](const Undo& undo) {
      if (!undo.is_shared) NodeAccess::MakePayload(undo.written).unit = unit;
    });
  }
}

namespace {

/// With the units' mutex held.
std::vector<Value> WrittenBy(const WriteUnit& unit) {
  std::vector<Value> values;
  ForEachWrite(unit, [&](const Undo& undo) { values.push_back({NodePtr(undo.written), 0}); });
  return values;
}

std::shared_ptr<const Error> FailureOfValues(
    const std::vector<Value>& values, const std::shared_ptr<const Error>& inherited = nullptr) {
  if (values.empty()) return nullptr;
  Walk walk;
  RunWalk(values, values[0].node->device(), 0, walk, /*all_roots=*/true);
  if (walk.failed) return ErrorAt(*walk.failed);
  const bool inherits =
      inherited && std::ranges::any_of(walk.order, [&](const Node* node) {
        const LeafPayload* payload = NodeAccess::payload(node);
        return payload && payload->failed_step && payload->failed_step->error == inherited;
      });
  return inherits ? inherited : nullptr;
}

}  // namespace

std::shared_ptr<const Error> FailureOf(const WriteUnit& unit,
                                       const std::shared_ptr<const Error>& inherited) {
  return FailureOfValues(ValuesOf(unit), inherited);
}

void FailUnit(WriteUnit& unit, std::shared_ptr<const Error> error) {
  std::lock_guard lock(AllUnits().mutex);
  unit.error = std::move(error);
  if (unit.state != State::kOpen) unit.state = State::kFailed;
}

void ReplaceFailure(const std::shared_ptr<const Error>& old,
                    const std::shared_ptr<const Error>& error) {
  std::lock_guard lock(AllUnits().mutex);
  for (const WriteUnitPtr& unit : AllUnits().unsettled) {
    if (unit->error == old) unit->error = error;
  }
}

bool FailsUnit(const std::shared_ptr<const Error>& error) {
  std::lock_guard lock(AllUnits().mutex);
  return std::ranges::any_of(AllUnits().unsettled, [&](const WriteUnitPtr& unit) {
    return unit->error == error && !unit->writes.IsEmptyList();
  });
}

bool IsUndone(const WriteUnit& unit) {
  std::lock_guard lock(AllUnits().mutex);
  return unit.state == State::kFailed && unit.writes.IsEmptyList();
}

bool IsStarted(const WriteUnit& unit) {
  std::lock_guard lock(AllUnits().mutex);
  bool started = true;
  ForEachWrite(unit, [&](const Undo& undo) { started &= IsAvailable(*undo.written); });
  return started;
}

DeviceId DeviceOf(const WriteUnit& unit) {
  std::lock_guard lock(AllUnits().mutex);
  if (unit.writes.IsEmptyList()) return kNoDevice;
  return static_cast<const Undo*>(unit.writes.next)->written->device();
}

namespace {

/// With both mutexes held. What lies below in a target's list is of no use any more: the target has
/// a later value that stands.
bool Settle(WriteUnit& unit, ErasedWrites& erased) {
  if (unit.state != State::kSealed || !unit.needs.empty()) return false;
  bool computed = true;
  ForEachWrite(unit, [&](const Undo& undo) { computed = computed && IsComputed(*undo.written); });
  if (!computed) return false;
  unit.state = State::kSettled;
  while (!unit.writes.IsEmptyList()) {
    auto& undo = static_cast<Undo&>(*unit.writes.next);
    LeafPayload* payload = NodeAccess::payload(undo.written);
    if (payload && payload->unit.get() == &unit) payload->unit = nullptr;
    while (undo.below) Erase(*undo.below, erased);
    Erase(undo, erased);
  }
  return true;
}

}  // namespace

void TrySettle(const WriteUnitPtr& unit) {
  ErasedWrites erased;
  std::vector<WriteUnitPtr> settled;
  std::lock_guard graph(Executor().graph_mutex);
  WriteUnits& all = AllUnits();
  std::lock_guard lock(all.mutex);
  if (!Settle(*unit, erased)) return;
  settled.push_back(unit);
  all.unsettled.erase(unit->listed);
  // Later units come behind in the list, so that one pass settles what waited for what.
  for (auto at = all.unsettled.begin(); at != all.unsettled.end();) {
    WriteUnitPtr next = *at++;
    bool waited = std::erase_if(next->needs, [](const WriteUnitPtr& need) {
                    return need->state == State::kSettled;
                  }) > 0;
    if (waited && Settle(*next, erased)) {
      all.unsettled.erase(next->listed);
      settled.push_back(std::move(next));
    }
  }
}

void SettleIdle() {
  std::vector<WriteUnitPtr> idle;
  {
    std::lock_guard graph(Executor().graph_mutex);
    std::lock_guard lock(AllUnits().mutex);
    for (const WriteUnitPtr& unit : AllUnits().unsettled) {
      if (unit->in_flight == 0 && unit->state == State::kSealed) idle.push_back(unit);
    }
  }
  for (const WriteUnitPtr& unit : idle) TrySettle(unit);
}

std::vector<WriteUnitPtr> LeftPending(const ThreadContext& owner) {
  std::vector<WriteUnitPtr> units;
  {
    std::lock_guard graph(Executor().graph_mutex);
    std::lock_guard lock(AllUnits().mutex);
    for (const WriteUnitPtr& unit : AllUnits().unsettled) {
      if (unit->owner == &owner && unit->in_flight == 0 && unit->state == State::kSealed) {
        units.push_back(unit);
      }
    }
  }
  std::erase_if(units, [](const WriteUnitPtr& unit) {
    std::lock_guard graph(Executor().graph_mutex);
    return IsStarted(*unit);
  });
  return units;
}

std::vector<Value> ValuesOf(const WriteUnit& unit) {
  std::lock_guard lock(AllUnits().mutex);
  return WrittenBy(unit);
}

namespace {

/// With both mutexes held.
bool IsFailedBy(const WriteUnit& unit, const std::shared_ptr<const Error>& error) {
  if (unit.error) return unit.error == error;
  for (const WriteUnitPtr& need : unit.needs) {
    if (need->error == error) return true;
  }
  return FailureOfValues(WrittenBy(unit)) == error;
}

/// Puts a target back to the value from before; holds the target.
struct Restore {
  Tensor tensor;
  std::shared_ptr<AliasGroup> group;
  Value before;
  bool has_history = false;

  void Apply() {
    if (group) {
      if (!before) return;
      std::lock_guard lock(group->mutex);
      group->base = std::move(before);
      group->generation.fetch_add(1);
    } else if (tensor.defined() && !before) {
      tensor.impl()->undone = true;
    } else if (tensor.defined()) {
      SetNode(*tensor.impl(), before);
      if (has_history) tensor.impl()->tape = before.tape;
    }
  }
};

class Undoing {
 public:
  explicit Undoing(std::shared_ptr<const Error> error) : error_(std::move(error)) {}

  int Run() {
    int count = 0;
    {
      std::lock_guard graph(Executor().graph_mutex);
      std::lock_guard lock(AllUnits().mutex);
      FindFailed();
      for (const WriteUnitPtr& unit : failed_) count += !unit->writes.IsEmptyList();
      // Latest first: what a target had before the earliest of them remains.
      for (size_t i = failed_.size(); i-- > 0;) TakeBack(*failed_[i]);
    }
    for (Restore& restore : restores_) restore.Apply();
    return count;
  }

 private:
  void FindFailed() {
    auto& all = AllUnits().unsettled;
    for (auto at = all.begin(); at != all.end();) {
      WriteUnitPtr unit = *at++;
      if (unit->writes.IsEmptyList() && unit->state == State::kOpen) continue;
      if (!IsFailedBy(*unit, error_)) continue;
      unit->error = error_;
      unit->state = State::kFailed;
      MarkFailed(*unit);
      all.erase(unit->listed);
      failed_.push_back(std::move(unit));
    }
  }

  /// Values that depend on the unit's writes raise the error, also those that had been computed.
  void MarkFailed(WriteUnit& unit) {
    ForEachWrite(unit, [&](const Undo& undo) {
      if (undo.is_shared || undo.written->IsLeaf()) return;
      LeafPayload& payload = NodeAccess::MakePayload(undo.written);
      payload.unit = nullptr;
      payload.error = error_;
      payload.undone = true;
      for (int i = 0; i < undo.written->num_outputs(); ++i) {
        // A step that is still running refers to it.
        BackendDataPtr& data = undo.written->slots()[i].data;
        if (data) payload.dropped.push_back(std::move(data));
        data = nullptr;
      }
    });
  }

  void TakeBack(WriteUnit& unit) {
    while (!unit.writes.IsEmptyList()) {
      auto& undo = static_cast<Undo&>(*unit.writes.next);
      if (undo.above) {
        std::swap(undo.above->before, undo.before);
      } else {
        Plan(undo);
      }
      Erase(undo, erased_);
    }
  }

  void Plan(Undo& undo) {
    auto [at, is_new] = index_.try_emplace(undo.target, restores_.size());
    if (is_new) restores_.push_back(Hold(undo));
    Restore& restore = restores_[at->second];
    std::swap(restore.before, undo.before);
    restore.has_history |= undo.has_history;
  }

  /// Holds nothing if the target is just being destroyed.
  static Restore Hold(const Undo& undo) {
    Restore restore;
    if (undo.is_group) {
      restore.group = static_cast<AliasGroup*>(undo.target)->weak_from_this().lock();
      return restore;
    }
    auto* impl = static_cast<TensorImpl*>(undo.target);
    uint32_t references = impl->references.load();
    while (references > 0 && !impl->references.compare_exchange_weak(references, references + 1)) {
    }
    if (references > 0) restore.tensor = Tensor::FromImpl(impl);
    return restore;
  }

  const std::shared_ptr<const Error> error_;
  std::vector<WriteUnitPtr> failed_;
  std::vector<Restore> restores_;
  std::unordered_map<WriteTarget*, size_t> index_;  // looked up, never iterated
  ErasedWrites erased_;
};

}  // namespace

bool FailsUnitOf(const ThreadContext& owner, const std::shared_ptr<const Error>& error) {
  std::lock_guard graph(Executor().graph_mutex);
  std::lock_guard lock(AllUnits().mutex);
  return std::ranges::any_of(AllUnits().unsettled, [&](const WriteUnitPtr& unit) {
    return unit->owner == &owner && !unit->writes.IsEmptyList() && IsFailedBy(*unit, error);
  });
}

int UndoFailed(const std::shared_ptr<const Error>& error) { return Undoing(error).Run(); }

}  // namespace hammock
