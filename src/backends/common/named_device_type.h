#pragma once
/// The type of a backend's devices, of which it has one alone.

#include <string>
#include <utility>

#include "base/throw.h"
#include "hammock/lazy/backend_device.h"

namespace hammock {

struct NamedDeviceType : lazy::BackendDeviceType {
  NamedDeviceType(std::string name, int8_t type) : BackendDeviceType(type), name(std::move(name)) {}
  std::string toString() const override { return name; }
  /// Throws where `other` is the number of another type.
  void RequireIs(int8_t other) const {
    if (other == type) return;
    Throw(ErrorCode::kUnknownDevice, "{}: device type {} is unknown, there is only {}", name, other,
          type);
  }

  const std::string name;
};

}  // namespace hammock
