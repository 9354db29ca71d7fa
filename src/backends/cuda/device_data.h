#pragma once
/// DeviceData: a value on a device of the CUDA backend.

#include <memory>
#include <mutex>

#include "backends/cuda/device_memory.h"
#include "base/throw.h"
#include "hammock/lazy/backend_data.h"

namespace hammock::cuda {

/// A block of device memory; null while it is a placeholder or after it was donated. Its value is
/// there for everything that is asked of its machine later, and for the host from `moment` on.
class DeviceData : public lazy::BackendData {
 public:
  DeviceData(const lazy::BackendDevice& device, const Shape& shape) : BackendData(device, shape) {}
  DeviceData(const lazy::BackendDevice& device, const Shape& shape, BlockPtr block,
             std::shared_ptr<Moment> moment)
      : BackendData(device, shape), block_(std::move(block)), moment_(std::move(moment)) {}

  void Assign(const lazy::BackendData& data) override {
    const auto* other = dynamic_cast<const DeviceData*>(&data);
    HAMMOCK_CHECK(other && other->shape() == shape(), "{} cannot receive {}", shape().to_string(),
                  data.shape().to_string());
    Set(other->block(), other->moment());
  }
  bool HasValue() const override {
    std::lock_guard lock(mutex_);
    return block_ != nullptr;
  }

  BlockPtr block() const {
    std::lock_guard lock(mutex_);
    return block_;
  }
  std::shared_ptr<Moment> moment() const {
    std::lock_guard lock(mutex_);
    return moment_;
  }
  void Set(BlockPtr block, std::shared_ptr<Moment> moment) {
    std::lock_guard lock(mutex_);
    std::swap(block_, block);
    std::swap(moment_, moment);
  }

 private:
  mutable std::mutex mutex_;
  BlockPtr block_;
  std::shared_ptr<Moment> moment_;
};

}  // namespace hammock::cuda
