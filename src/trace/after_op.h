#pragma once
/// The last part of recording an op: its tensor, counted against the budgets. Inlined into the
/// functions that record, for this is on the path of every op.

#include "base/location_scope.h"
#include "hammock/config.h"
#include "hammock/ir/op_def.h"
#include "hammock/profile.h"
#include "trace/autocast.h"
#include "trace/held_bytes.h"
#include "trace/hooks.h"
#include "trace/tensor_impl.h"

namespace hammock {

inline LocationId Here(const Location& at) {
  return tls_location ? tls_location : InternLocation(at);
}

/// Whether a node of it can have a history of its own, rather than those of its parts.
inline bool HasGradient(const OpDef& op) { return !op.IsComposite() || op.vjp; }

inline bool MayCast(const OpDef& op) {
  return op.autocast != AutocastRule::kNone && IsAutocast(Context());
}

inline bool IsEager(const ThreadContext& context) {
  return config::Get<config::kEager>() || context.eager > 0;
}

/// Counts an op; true if a budget must be checked.
inline bool CountOp(ThreadContext& context) {
  ++context.traced_nodes;
  // Not by Get, which looks whether they were read yet: then they differ, too.
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (config::kTrimGraphSize.value.load(kRelaxed) != context.most_nodes ||
      config::kTrimGraphBytes.value.load(kRelaxed) != context.most_bytes) [[unlikely]] {
    context.nodes_look = context.held_look = 0;
  }
  if (profile::detail::wanted.load(kRelaxed) != 0) [[unlikely]]
    NoteOp(context);
  return context.traced_nodes >= context.nodes_look || IsTimeToLook(context);
}

/// Runs the budgets and eager mode after an op.
inline void AfterOp(ThreadContext& context, const Tensor& result) {
  AddHeldBytes(context, *result.impl());
  bool check = CountOp(context), eager = IsEager(context);
  if (check || eager) [[unlikely]] {
    if (context.baking == 0) AfterOpSlow(context, result, eager);
  }
}

inline Tensor FinishOp(NodePtr node, uint32_t index) {
  ThreadContext& context = Context();
  bool symbolic = node->device() == kNoDevice;
  Tensor result = NewTensor(context, node.release(), index, false);
  if (!symbolic) AfterOp(context, result);
  return result;
}

/// With scalars only, a node has no device yet.
inline DeviceId ResolveDevice(DeviceId device) {
  if (device != kNoDevice) return device;
  ThreadContext& context = Context();
  if (context.symbolic > 0) return device;
  return context.home_device != kNoDevice ? context.home_device : Device().id();
}

}  // namespace hammock
