#pragma once
/// The device half of a backend that has one device.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/throw.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {

class SingleDeviceBackend : public lazy::BackendImplInterface {
 public:
  /// The name and number of the device's type.
  SingleDeviceBackend(std::string name, int8_t type)
      : type_(std::make_shared<Type>(std::move(name), type)) {}

  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override { return type_; }
  void SetDefaultDeviceType(int8_t type) override {
    if (type == type_->type) return;
    Throw(ErrorCode::kUnknownDevice, "{}: device type {} is unknown, there is only {}", type_->name,
          type, type_->type);
  }
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
  struct Type : lazy::BackendDeviceType {
    Type(std::string name, int8_t type) : BackendDeviceType(type), name(std::move(name)) {}
    std::string toString() const override { return name; }
    const std::string name;
  };

  const std::shared_ptr<Type> type_;
};

}  // namespace hammock
