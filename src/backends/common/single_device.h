#pragma once
/// The device half of a backend that has one device.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/common/named_device_type.h"
#include "base/throw.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {

class SingleDeviceBackend : public lazy::BackendImplInterface {
 public:
  /// The name and number of the device's type.
  SingleDeviceBackend(std::string name, int8_t type)
      : type_(std::make_shared<NamedDeviceType>(std::move(name), type)) {}

  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override { return type_; }
  void SetDefaultDeviceType(int8_t type) override { type_->RequireIs(type); }
  int64_t GetDefaultDeviceOrdinal() const override { return 0; }
  void SetDefaultDeviceOrdinal(int64_t ordinal) override {
    if (ordinal == 0) return;
    Throw(ErrorCode::kBadOrdinal, "{}: ordinal {} does not exist, there is only 0", type_->name,
          ordinal);
  }
  std::vector<lazy::BackendDevice> GetBackendDevices() const override {
    return {lazy::BackendDevice(type_, 0)};
  }

 private:
  const std::shared_ptr<NamedDeviceType> type_;
};

}  // namespace hammock
