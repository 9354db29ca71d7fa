#pragma once
/// Arguments of a function that is traced, and the values that it leaves in tensors that are not
/// its own.

#include <vector>

#include "runtime/step/executor.h"

namespace hammock {

/// An argument without a value. A use of its value raises an error: reads inside the function, and
/// whatever of the trace outlives it. `op` names the caller.
NodePtr MakeTracedInput(const char* op, size_t index, const Shape& type, DeviceId device,
                        LocationId location);

/// The tensors of this thread and what a write to them would change, as they were when this was
/// made.
class LiveTensors {
 public:
  LiveTensors();

  /// Gives tensors that were written since then their values back; one of those that were written.
  Value UndoWrites() const;
  /// A value that is computed from `inputs` and held by a tensor that is new, and none of
  /// `results`; gradients of the others count if `gradients` says so. Null if there is none.
  NodePtr FindKept(const std::vector<NodePtr>& inputs, const std::vector<Tensor>& results,
                   bool gradients = false) const;

 private:
  NodePtr FindHeld(const std::vector<NodePtr>& inputs, const std::vector<Tensor>& results,
                   bool gradients) const;

  std::vector<Tensor> tensors_;
  std::vector<Value> before_;
};

}  // namespace hammock
