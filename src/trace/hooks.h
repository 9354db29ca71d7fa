#pragma once
/// Functions that recording calls and later folders define, so that no include points forward. They
/// stand by the file that defines them.

#include <cstdint>
#include <span>

#include "hammock/ir/node.h"
#include "hammock/random.h"
#include "hammock/tensor.h"

namespace hammock {

struct TensorImpl;
struct ThreadContext;
struct CustomCall;
class MapTrace;
class Operands;

// ---- src/runtime/step/trace_hooks.cpp: running what was recorded

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

// ---- src/runtime/step/budget.cpp

/// Starts the budgets' counts anew: all that the thread recorded has been run.
void ResetBudgets(ThreadContext& context);

// ---- src/runtime/diagnose/profile_points.cpp

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

/// Where an op's random numbers begin, and how many blocks are its own.
struct RandomDraw {
  uint64_t seed, offset, blocks;
};
/// Random state for an op that draws `blocks`; a checkpoint that is traced again gives what it gave
/// the first time.
RandomDraw TakeRandom(Generator& generator, uint64_t blocks);

// ---- src/vmap/map_trace.cpp: functions that are traced for one sample

/// A mapped function recorded `node` with a history.
[[gnu::cold]] void NoteHistory(MapTrace& trace, const Node& node, const Operands& operands);
/// A mapped function called one with a gradient of its own.
[[gnu::cold]] void NoteCustom(MapTrace& trace, CustomCall call);
/// How many samples draw numbers of their own where one op is traced. Raises where the function may
/// draw none.
uint64_t RandomCopies();
/// The sample of a mapped function that is being traced drew `blocks`, the others those behind.
[[gnu::cold]] void NoteDraw(MapTrace& trace, const RandomDraw& draw, uint64_t blocks);

}  // namespace hammock
