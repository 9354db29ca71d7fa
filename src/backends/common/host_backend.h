#pragma once
/// HostBackend: the base of backends whose data is in host memory, with transfers, injected faults,
/// memory limits and metrics. A derived backend compiles, runs and allocates.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/common/single_device.h"
#include "hammock/host_tensor.h"
#include "hammock/lazy/host_sharing.h"

namespace hammock {

/// A host tensor; empty while it is a placeholder or after it was donated. Uploaded ones may share
/// memory with the caller and are never written.
class HostData : public lazy::BackendData {
 public:
  HostData(const lazy::BackendDevice& device, const Shape& shape) : BackendData(device, shape) {}
  HostData(const lazy::BackendDevice& device, const HostTensor& tensor, bool writable)
      : BackendData(device, tensor.shape()), bytes_(tensor.storage()), writable_(writable) {}

  void Assign(const BackendData& data) override {
    const auto* other = dynamic_cast<const HostData*>(&data);
    HAMMOCK_CHECK(other && other->shape() == shape(), "{} cannot receive {}", shape().to_string(),
                  data.shape().to_string());
    SetTensor(other->tensor(), other->writable());
  }
  bool HasValue() const override { return tensor().defined(); }

  HostTensor tensor() const {
    std::lock_guard lock(mutex_);
    return bytes_ ? HostTensor(shape(), bytes_) : HostTensor();
  }
  void SetTensor(const HostTensor& tensor, bool writable) {
    std::shared_ptr<void> bytes = tensor.storage();
    std::lock_guard lock(mutex_);
    std::swap(bytes_, bytes);
    writable_ = writable;
  }
  bool writable() const {
    std::lock_guard lock(mutex_);
    return writable_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<void> bytes_;  // null: no value
  bool writable_ = false;
};

class HostBackend : public SingleDeviceBackend, public lazy::HostSharing {
 public:
  HostBackend(std::string name, int8_t type)
      : SingleDeviceBackend(std::move(name), type), type_number_(type) {}

  BackendDataPtr MakeComputationDataFromTensor(const HostTensor& tensor, const Shape& shape,
                                               const lazy::BackendDevice& device) const override;
  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const lazy::BackendDevice& device) const override;
  bool SupportsConcurrentExecution() const override { return true; }

  BackendDataPtr CreateDataPlaceholder(const lazy::BackendDevice& device,
                                       const Shape& shape) const override {
    return std::make_shared<HostData>(device, shape);
  }
  HostTensor MakeTensorFromComputationData(const BackendDataPtr data,
                                           std::optional<DType> logical_scalar_type) const override;
  HostTensor Share(const BackendDataPtr& data) const override;

  std::unique_ptr<lazy::LoweringContext> CreateLoweringContext(
      const std::string& name, lazy::BackendDevice device, std::span<const Node* const> post_order,
      lazy::Util::EmissionMap emit_status) const override;
  std::unique_ptr<lazy::LoweringContext> CreateLoweringContext(
      const std::string& name, lazy::BackendDevice device) const override;

  std::string CreateMetricReport() const override;
  std::map<std::string, double> GetMetrics() const override;
  void SetMemoryLimit(const lazy::BackendDevice& device, int64_t bytes) const override;

 protected:
  struct Counters {
    std::atomic<int64_t> compiled{0};
    std::atomic<int64_t> instantiated{0};
    std::atomic<int64_t> executed{0};
    std::atomic<int64_t> bytes_in{0};
    std::atomic<int64_t> bytes_out{0};
    std::atomic<int64_t> failed{0};
  };

  /// The caller's bytes, shared and counted while the result lives.
  virtual HostTensor Adopt(const HostTensor& tensor) const = 0;
  virtual void LimitMemory(int64_t bytes) const = 0;
  /// The value of the data. If it is data of another backend or has no value, the error names the
  /// attempt, `what`.
  HostTensor TensorOf(const BackendDataPtr& data, const char* what) const;

  mutable Counters counters_;

 private:
  const int8_t type_number_;
};

}  // namespace hammock
