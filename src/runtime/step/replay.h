#pragma once
/// Running a compiled step again without tracing.
///
/// Note [Replays]: a replay makes one `call` node, whose operands are the arguments and whose body
/// is the step's traced graph, and one node per result that is claimed by the run at once. So a
/// replay is a transaction like any step: when it succeeds, its results let go of the `call` node;
/// when it fails, they are pending again, the error is noted at the `call` node, and after
/// ClearErrors each result can be computed by itself.

#include <span>
#include <vector>

#include "runtime/step/executor.h"

namespace hammock {

/// The nodes that every replay of a step records.
struct Recital {
  explicit Recital(CompiledStepPtr step);

  CompiledStepPtr step;
  Attr body;                 ///< the traced graph; shares the step
  std::vector<Shape> types;  ///< of results
  std::vector<Attr> sizes;
};

/// Runs the step on one value per parameter, on its device and of its types. Arguments that are
/// `released` are about to lose their tensor to a write of `unit`, so their memory may be given
/// away. Returns one value per result, which may still be pending.
std::vector<Value> Replay(const Recital& recital, std::vector<Value> arguments, const char* trigger,
                          const std::vector<bool>& released = {}, const WriteUnitPtr& unit = {});

/// The data of values of a device, computed or uploaded first where needed, and waited for.
std::vector<BackendDataPtr> ReadyData(DeviceEntry& device, std::span<const Value> values,
                                      const char* trigger);
/// Runs a computation outside of any step, on the calling thread, and waits for its results.
/// Arguments are ready; none is donated.
std::vector<BackendDataPtr> ExecuteNow(DeviceEntry& device, const lazy::ComputationPtr& computation,
                                       std::span<const BackendDataPtr> arguments);

/// An error where the device is gone or this thread forbids execution.
void CheckMayRun(const DeviceEntry& device, const char* trigger);
/// ValueError or TypeError unless argument `index` of `op` is defined, of `type` and on `device`.
void CheckArgument(const char* op, size_t index, const Tensor& argument, const Shape& type,
                   const DeviceEntry& device);
void CheckArgumentCount(const char* op, size_t given, size_t needed);

}  // namespace hammock
