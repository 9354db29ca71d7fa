#pragma once
/// Device: names one device of one registered backend, as "cpu", "cuda:1" or "reference".

#include <iosfwd>
#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/device_id.h"
#include "hammock/lazy/backend_device.h"
#include "hammock/location.h"

namespace hammock {

namespace lazy {
class BackendImplInterface;
}

class HAMMOCK_API Device {
 public:
  /// The default device: by API, else config `device`, else the best backend there is.
  Device(Location at = Location::current());  // NOLINT: `Device device = {}`
  /// ValueError for an unknown name (with those that exist) or an ordinal that does not exist.
  Device(const std::string& name,  // NOLINT: a name is a device
         Location at = Location::current());
  Device(const char* name, Location at = Location::current())  // NOLINT
      : Device(std::string(name), at) {}
  static Device FromId(DeviceId id) { return Device(id, 0); }

  DeviceId id() const { return id_; }
  std::string type() const;  ///< "cuda"
  int64_t ordinal() const;
  std::string to_string() const;  ///< "cuda:1"
  lazy::BackendImplInterface& backend() const;
  const lazy::BackendDevice& backend_device() const;
  bool operator==(const Device&) const = default;

 private:
  Device(DeviceId id, int) : id_(id) {}
  DeviceId id_;
};

HAMMOCK_API std::ostream& operator<<(std::ostream& os, const Device& device);

HAMMOCK_API void SetDefaultDevice(const Device& device);
/// Every device of every registered backend, by name.
HAMMOCK_API std::vector<Device> Devices();

// ---- Memory. When an allocation fails or passes the limit, the runtime frees what it can and
// tries once more before the step fails.

HAMMOCK_API lazy::MemoryInfo GetMemoryInfo(const Device& device, Location at = Location::current());
/// Bytes that live data of the device may take; 0 lifts the limit. NotSupported where the backend
/// keeps none.
HAMMOCK_API void SetMemoryLimit(const Device& device, int64_t bytes,
                                Location at = Location::current());
/// Drops what can be made again: derived data, cached scalars, the backend's own caches. Returns
/// the bytes of derived data that were dropped.
HAMMOCK_API int64_t FreeMemory(const Device& device, Location at = Location::current());

}  // namespace hammock
