#pragma once
/// How much memory is free, and the runtime's answer to a lack of it: drop data that can be made
/// again, retry, and say what holds the rest.

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "hammock/error.h"
#include "runtime/devices/backend_registry.h"

namespace hammock {

constexpr int64_t kUnknownBytes = std::numeric_limits<int64_t>::max();

/// Asking the host how much it has takes microseconds, so less than this does not.
constexpr int64_t kLittleMemory = 64 << 20;

/// Bytes that a device may still take: of its limit, else of the memory that it says it has, else
/// of what the host has available.
int64_t FreeBytes(const lazy::MemoryInfo& info);
/// From now on the host has so much available; none: as much as it says itself.
void SetHostMemoryForTesting(std::optional<int64_t> bytes);

/// Drops derived data, cached scalars and the backend's caches; false if there were none.
bool FreeMemoryOf(DeviceEntry& device);
/// Adds the largest live values of the device to the message.
[[noreturn]] void RaiseOutOfMemory(DeviceEntry& device, const OutOfMemory& error);

/// Runs `allocate`, a second time if it ran out of memory and some could be freed. Without the
/// graph mutex.
template <class Fn>
auto WithMemory(DeviceEntry& device, Fn&& allocate) -> decltype(allocate()) {
  try {
    return allocate();
  } catch (const OutOfMemory& error) {
    if (!FreeMemoryOf(device)) RaiseOutOfMemory(device, error);
  }
  try {
    return allocate();
  } catch (const OutOfMemory& error) {
    RaiseOutOfMemory(device, error);
  }
}

}  // namespace hammock
