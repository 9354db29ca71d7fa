#pragma once
/// Staging: a ring of pinned host memory through which large copies go. While the GPU copies one
/// slot, the host fills or empties another.

#include <cstdint>
#include <vector>

#include "backends/cuda/driver/driver.h"

namespace hammock::cuda {

/// Copies on one stream, under a lock of the caller. Allocates its memory with the first copy and
/// keeps it.
class Staging {
 public:
  Staging(const Driver& driver, CUstream stream) : driver_(driver), stream_(stream) {}

  /// Returns when the host's bytes were read; the copy may still be in flight.
  void Upload(CUdeviceptr to, const void* from, size_t bytes);
  /// Returns when the copy is complete.
  void Download(void* to, CUdeviceptr from, size_t bytes);

 private:
  static constexpr size_t kSlots = 4;
  static constexpr size_t kSlotBytes = size_t{2} << 20;

  struct Slot {
    char* memory = nullptr;
    CUevent copied = nullptr;
  };
  void Open();
  Slot& SlotOf(size_t chunk) { return slots_[chunk % kSlots]; }

  const Driver& driver_;
  const CUstream stream_;
  std::vector<Slot> slots_;
  size_t uploads_ = 0;  // chunks so far
};

}  // namespace hammock::cuda
