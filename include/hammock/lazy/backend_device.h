#pragma once
/// BackendDeviceType and BackendDevice: what kind of hardware, and which one of it.

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>

#include "hammock/export.h"

namespace hammock::lazy {

/// A backend subclasses this to name its hardware. Types are compared by `type`, then by name.
struct HAMMOCK_API BackendDeviceType {
  BackendDeviceType() = default;
  explicit BackendDeviceType(int8_t type) : type(type) {}
  virtual ~BackendDeviceType();
  virtual std::string toString() const { return "Unknown"; }

  int8_t type = 0;
};

class HAMMOCK_API BackendDevice {
 public:
  /// The default device of the default backend.
  BackendDevice();
  BackendDevice(std::shared_ptr<BackendDeviceType> type, int64_t ordinal)
      : type_(std::move(type)), ordinal_(ordinal) {}

  int8_t type() const { return type_->type; }
  const std::shared_ptr<BackendDeviceType>& device_type() const { return type_; }
  int64_t ordinal() const { return ordinal_; }
  /// Type name and ordinal without a separator: "CPU0".
  std::string toString() const;

  bool operator==(const BackendDevice& other) const { return Compare(other) == 0; }
  bool operator!=(const BackendDevice& other) const { return Compare(other) != 0; }
  bool operator<(const BackendDevice& other) const { return Compare(other) < 0; }

 private:
  int Compare(const BackendDevice& other) const;
  std::shared_ptr<BackendDeviceType> type_;
  int64_t ordinal_ = 0;
};

HAMMOCK_API std::ostream& operator<<(std::ostream& os, const BackendDevice& device);

struct MemoryInfo {
  int64_t in_use = 0;    ///< held by live data, derived data included
  int64_t derived = 0;   ///< of which derived data
  int64_t reserved = 0;  ///< taken from the system, in use or cached
  int64_t peak = 0;      ///< highest in_use so far
  int64_t limit = 0;     ///< 0 means none
  int64_t total = 0;     ///< of the device; 0: its memory is the host's
};

}  // namespace hammock::lazy
