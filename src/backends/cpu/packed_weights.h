#pragma once
/// PackedWeights: the packed weights of a run (Call::PackedWeightSpec), kept with their data from
/// run to run.
///
/// A weight is packed when a program gets the same data for the second time: a weight that a
/// training step has just written is never seen again. A packed weight is derived data of the
/// data, so the runtime counts it and drops it when memory is short. Data has at most two packed
/// weights at a time; further programs use it unpacked.

#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/program.h"
#include "hammock/host_tensor.h"
#include "hammock/lazy/backend_data.h"

namespace hammock::cpu {

/// Keeps the packed weights of one run alive.
class PackedWeights {
 public:
  /// `inputs` are the values of `arguments`; donated ones are not packed. New packed weights take
  /// at most `room` bytes.
  PackedWeights(const Program& program, std::span<const lazy::BackendDataPtr> arguments,
                const std::vector<HostTensor>& inputs, const std::vector<bool>& donated,
                int64_t room);

  /// For Program::Run.
  std::span<char* const> pointers() const { return pointers_; }

 private:
  std::vector<std::shared_ptr<void>> held_;
  std::vector<char*> pointers_;
};

}  // namespace hammock::cpu
