#include "backends/cuda/driver/varying_numbers.h"

#include <utility>

namespace hammock::cuda {

int VaryingNumbers::AssignSlots(std::span<Number> numbers) {
  std::lock_guard lock(mutex_);
  for (Number& number : numbers) {
    if (known_.size() <= number.argument) known_.resize(number.argument + 1);
    Known& known = known_[number.argument];
    const auto before = std::exchange(known.last, number.value);
    const bool varies = before && *before != number.value;
    if (varies && known.slot < 0 && slots_ < kMost) known.slot = slots_++;
    number.slot = known.slot;
  }
  return slots_;
}

}  // namespace hammock::cuda
