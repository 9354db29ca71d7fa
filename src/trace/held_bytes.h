#pragma once
/// The sum of the bytes of pending values that a thread's tensors hold, by which it knows when to
/// look at free memory; see Note [Budgets] in runtime/step/budget.h.

#include "trace/tensor_impl.h"

namespace hammock {

/// Adds a new tensor's value to the sum of its thread.
inline void AddHeldBytes(ThreadContext& context, TensorImpl& impl) {
  impl.held_epoch = context.held_epoch;
  impl.held_bytes = impl.node->shape(static_cast<int>(impl.index)).bytes();
  context.held_bytes += impl.held_bytes;
}

/// Takes it out again where `context` is that of its owner, unless the sum has begun anew since.
inline void RemoveHeldBytes(ThreadContext& context, const TensorImpl& impl) {
  if (impl.held_epoch == context.held_epoch) context.held_bytes -= impl.held_bytes;
}

inline bool IsTimeToLook(const ThreadContext& context) {
  return context.held_bytes >= context.held_look;
}

}  // namespace hammock
