#pragma once
/// The runtime's answer to a lack of memory: drop data that can be made again, retry, and say
/// what holds the rest.

#include <utility>

#include "hammock/error.h"
#include "runtime/backend_registry.h"

namespace hammock {

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
