#pragma once
/// Weights in the forms that steps like to read (Call::Form), kept with their data from run to run.
///
/// A form is made when a program meets the same data for the second time: what a training step has
/// just written is never seen again. It is a derived form of the data, so the runtime counts it
/// and drops it where memory is short. Data has few forms at a time; what comes later than those
/// goes without.

#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/program.h"
#include "hammock/host_tensor.h"
#include "hammock/lazy/backend_data.h"

namespace hammock::cpu {

/// Those for one run, which holds them.
class WeightForms {
 public:
  /// `inputs` are the values of `arguments`; donated ones get no form. At most `room` bytes are
  /// taken for new forms.
  WeightForms(const Program& program, std::span<const lazy::BackendDataPtr> arguments,
              const std::vector<HostTensor>& inputs, const std::vector<bool>& donated,
              int64_t room);

  /// For Program::Run.
  std::span<char* const> pointers() const { return pointers_; }

 private:
  std::vector<std::shared_ptr<void>> held_;
  std::vector<char*> pointers_;
};

}  // namespace hammock::cpu
