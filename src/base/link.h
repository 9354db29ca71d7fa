#pragma once
/// Intrusive doubly linked lists.

namespace hammock {

/// A member of a list, or the list itself, which begins and ends with it.
struct Link {
  Link* prev = this;
  Link* next = this;

  bool IsEmptyList() const { return next == this; }
  void InsertBefore(Link* other) {
    prev = other->prev;
    next = other;
    prev->next = this;
    other->prev = this;
  }
  void Remove() {
    prev->next = next;
    next->prev = prev;
    prev = next = this;
  }
};

}  // namespace hammock
