#pragma once
/// HandleTable: objects by number, for handles that go to code which may keep them too long or make
/// them up.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "plugins/small_lock.h"

namespace hammock::plugins {

/// A handle is an index, a generation that grows when the index is used again, and the kind of the
/// table, so that a handle of another table is none of this one. Never 0. Thread-safe.
template <class T>
class HandleTable {
 public:
  explicit HandleTable(uint8_t kind) : kind_(kind) {}

  uint64_t Add(T value) {
    std::lock_guard lock(mutex_);
    uint32_t index;
    if (free_.empty()) {
      index = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      index = free_.front();  // the one that was free longest
      free_.pop_front();
    }
    slots_[index].value.emplace(std::move(value));
    return HandleOf(index);
  }

  /// A copy; none for a stale or invented handle.
  std::optional<T> Find(uint64_t handle) const {
    std::lock_guard lock(mutex_);
    const Slot* slot = SlotOf(handle);
    return slot ? slot->value : std::nullopt;
  }

  /// Calls `use` on the object, with the table locked; false for a stale or invented handle.
  template <class F>
  bool With(uint64_t handle, F&& use) {
    std::lock_guard lock(mutex_);
    Slot* slot = SlotOf(handle);
    if (slot) use(*slot->value);
    return slot != nullptr;
  }

  /// Removes it.
  std::optional<T> Take(uint64_t handle) {
    std::lock_guard lock(mutex_);
    Slot* slot = SlotOf(handle);
    if (!slot) return std::nullopt;
    std::optional<T> value = std::exchange(slot->value, std::nullopt);
    ++slot->generation;
    free_.push_back(static_cast<uint32_t>(handle));
    return value;
  }

  template <class F>
  bool HasAny(F&& holds) const {
    std::lock_guard lock(mutex_);
    return std::ranges::any_of(slots_, [&](const Slot& s) { return s.value && holds(*s.value); });
  }

  /// Removes all.
  std::vector<T> TakeAll() {
    std::vector<T> all;
    std::lock_guard lock(mutex_);
    for (uint32_t index = 0; index < slots_.size(); ++index) {
      Slot& slot = slots_[index];
      if (!slot.value) continue;
      all.push_back(std::move(*slot.value));
      slot.value.reset();
      ++slot.generation;
      free_.push_back(index);
    }
    return all;
  }

  size_t size() const {
    std::lock_guard lock(mutex_);
    return slots_.size() - free_.size();
  }

 private:
  static constexpr uint32_t kGenerations = (1u << 24) - 1;
  struct Slot {
    std::optional<T> value;
    uint32_t generation = 1;
  };

  uint64_t HandleOf(uint32_t index) const {
    const uint64_t generation = slots_[index].generation & kGenerations;
    return uint64_t{kind_} << 56 | generation << 32 | index;
  }
  const Slot* SlotOf(uint64_t handle) const {
    const auto index = static_cast<uint32_t>(handle);
    if (index >= slots_.size() || HandleOf(index) != handle) return nullptr;
    return slots_[index].value ? &slots_[index] : nullptr;
  }
  Slot* SlotOf(uint64_t handle) { return const_cast<Slot*>(std::as_const(*this).SlotOf(handle)); }

  const uint8_t kind_;
  mutable SmallLock mutex_;
  std::vector<Slot> slots_;
  std::deque<uint32_t> free_;
};

}  // namespace hammock::plugins
