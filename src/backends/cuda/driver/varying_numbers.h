#pragma once
/// VaryingNumbers: the arguments of a program that are numbers of the host and change from run to
/// run, such as a position or a learning rate. With memory of its own, at whatever address, each
/// new number would need another CUDA graph. So a run gets such numbers as a part of its own
/// memory, in one upload. Numbers that stay have memory of their own and are uploaded once.

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// The bytes of a number, padded.
using NumberBytes = std::array<std::byte, 16>;

/// Thread-safe.
class VaryingNumbers {
 public:
  /// All of them are one upload in the order of the stream.
  static constexpr int kMost = Machine::kInOrder / sizeof(NumberBytes);

  /// A number among the arguments of a run.
  struct Number {
    size_t argument;  ///< its index
    NumberBytes value;
    int slot = -1;  ///< where it goes among the numbers of the run, if it varies
  };
  /// Sets `slot` of the numbers that vary. Returns how many slots there are.
  int AssignSlots(std::span<Number> numbers);

 private:
  struct Known {
    std::optional<NumberBytes> last;
    int slot = -1;
  };
  std::mutex mutex_;
  std::vector<Known> known_;  // by argument
  int slots_ = 0;
};

}  // namespace hammock::cuda
