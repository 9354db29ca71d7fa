#pragma once
/// HandleTable: objects by number, for handles that go to code which may keep them too long or make
/// them up.

#include <algorithm>
#include <cstdint>
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
    uint32_t index = first_free_;  // the one that was free longest
    if (index == kNone) {
      index = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      first_free_ = slots_[index].next_free;
    }
    ++size_;
    Slot& slot = slots_[index];
    slot.value.emplace(std::move(value));
    slot.handle = uint64_t{kind_} << 56 | uint64_t{slot.generation & kGenerations} << 32 | index;
    return slot.handle;
  }

  /// A copy; none for a stale or invented handle.
  std::optional<T> Find(uint64_t handle) const {
    std::lock_guard lock(mutex_);
    const Slot* slot = SlotOf(handle);
    return slot ? slot->value : std::nullopt;
  }

  /// The same as a T, which is T() for such a handle.
  T Copy(uint64_t handle) const {
    std::lock_guard lock(mutex_);
    const Slot* slot = SlotOf(handle);
    return slot ? *slot->value : T();
  }

  /// Calls `use` on the object, with the table locked; false for a stale or invented handle.
  template <class F>
  bool With(uint64_t handle, F&& use) {
    std::lock_guard lock(mutex_);
    Slot* slot = SlotOf(handle);
    if (slot) [[likely]]
      use(*slot->value);
    return slot != nullptr;
  }

  /// Calls `use` on the objects of several handles, in order; the index of the first one that is
  /// stale or invented, or `count`.
  template <class F>
  size_t WithEach(const uint64_t* handles, size_t count, F&& use) {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < count; ++i) {
      Slot* slot = SlotOf(handles[i]);
      if (!slot) [[unlikely]]
        return i;
      use(*slot->value);
    }
    return count;
  }

  /// Removes it.
  std::optional<T> Take(uint64_t handle) {
    std::lock_guard lock(mutex_);
    Slot* slot = SlotOf(handle);
    if (!slot) return std::nullopt;
    std::optional<T> value(std::move(*slot->value));
    Free(static_cast<uint32_t>(handle));
    return value;
  }

  /// Calls `done` on the object, and removes it where that is true; false for a stale or invented
  /// handle.
  template <class F>
  bool TakeIf(uint64_t handle, F&& done) {
    std::optional<T> taken;  // goes when the table is no longer locked
    std::lock_guard lock(mutex_);
    Slot* slot = SlotOf(handle);
    if (slot && done(*slot->value)) {
      taken.emplace(std::move(*slot->value));
      Free(static_cast<uint32_t>(handle));
    }
    return slot != nullptr;
  }

  template <class F>
  bool HasAny(F&& holds) {
    std::lock_guard lock(mutex_);
    return std::ranges::any_of(slots_, [&](Slot& s) { return s.value && holds(*s.value); });
  }

  /// Removes all.
  std::vector<T> TakeAll() {
    std::vector<T> all;
    std::lock_guard lock(mutex_);
    for (uint32_t index = 0; index < slots_.size(); ++index) {
      Slot& slot = slots_[index];
      if (!slot.value) continue;
      all.push_back(std::move(*slot.value));
      Free(index);
    }
    return all;
  }

  size_t size() const {
    std::lock_guard lock(mutex_);
    return size_;
  }

 private:
  static constexpr uint32_t kGenerations = (1u << 24) - 1;
  static constexpr uint32_t kNone = ~0u;
  static constexpr uint64_t kFree = ~uint64_t{0};  // the index of no slot
  struct Slot {
    std::optional<T> value;
    uint64_t handle = kFree;
    uint32_t generation = 1;
    uint32_t next_free = kNone;
  };

  void Free(uint32_t index) {
    Slot& slot = slots_[index];
    slot.value.reset();
    slot.handle = kFree;
    ++slot.generation;
    slot.next_free = kNone;
    --size_;
    if (first_free_ == kNone) {
      first_free_ = index;
    } else {
      slots_[last_free_].next_free = index;
    }
    last_free_ = index;
  }

  const Slot* SlotOf(uint64_t handle) const {
    const auto index = static_cast<uint32_t>(handle);
    return index < slots_.size() && slots_[index].handle == handle ? &slots_[index] : nullptr;
  }
  Slot* SlotOf(uint64_t handle) { return const_cast<Slot*>(std::as_const(*this).SlotOf(handle)); }

  const uint8_t kind_;
  mutable SmallLock mutex_;
  std::vector<Slot> slots_;
  uint32_t first_free_ = kNone, last_free_ = kNone;  // a list, through next_free
  size_t size_ = 0;
};

}  // namespace hammock::plugins
