#pragma once
/// Functions that recording calls and later folders define, so that no include points forward. They
/// stand by the file that defines them.

#include <span>
#include <utility>

#include "hammock/ir/node.h"
#include "hammock/random.h"
#include "hammock/tensor.h"

namespace hammock {

struct TensorImpl;
struct ThreadContext;
class Operands;

// ---- src/runtime/trace_hooks.cpp: running what was recorded

/// Eager mode: computes `result` now. Otherwise a budget is used up: computes what the thread has
/// pending.
void AfterOpSlow(ThreadContext& context, const Tensor& result, bool eager);
/// The elements of a tensor on the host, computed if need be; `trigger` names the reason in
/// reports.
HostTensor ReadElements(const Tensor& tensor, const char* trigger = "read");
bool IsPendingValue(const Tensor& tensor);
/// A node that holds the tensor's value on another device.
NodePtr CopyToDevice(const Tensor& tensor, DeviceId to, LocationId location);
/// Eager mode: computes a value that was written.
void ComputeWritten(const Value& value);
/// Hands the seed to every backend.
void SeedBackends(uint64_t seed);

// ---- src/runtime/budget.cpp

/// Starts the budgets' counts anew: all that the thread recorded has been run.
void ResetBudgets(ThreadContext& context);

// ---- src/runtime/profile_points.cpp

/// An op was recorded while a profile wants to know how long that takes.
[[gnu::cold]] void NoteOp(ThreadContext& context);
/// Ends the profile's span over the thread's latest `ops` ops.
[[gnu::cold]] void WriteRecorded(ThreadContext& context, int64_t ops);

// ---- src/autograd/record.cpp

/// The tape's entry for a node just recorded; null where no gradient can flow.
TapePtr RecordHistory(const Node& node, const Operands& operands);

// ---- src/autograd/tape.cpp

/// A history that only passes gradients on: a second tensor of the same value. Null where no
/// gradient is wanted.
TapePtr PassOn(const Value& value);
/// As PassOn, for a copy of `source` on another device.
TapePtr RecordTransfer(const Value& source, DeviceId to);
/// The history of `self` after `value` was written to it; refuses leaves that require grad.
TapePtr HistoryOfWrite(const char* op, const TensorImpl& self, const Value& value);

// ---- src/autograd/checkpoint.cpp

/// Random state for an op; a checkpoint that is traced again gives what it gave the first time.
std::pair<uint64_t, uint64_t> TakeRandom(Generator& generator, uint64_t blocks);

}  // namespace hammock
