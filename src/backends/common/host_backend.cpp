#include "backends/common/host_backend.h"

#include <fmt/format.h>

#include "backends/common/fault.h"

namespace hammock {

using lazy::BackendDevice;

BackendDataPtr HostBackend::MakeComputationDataFromTensor(const HostTensor& tensor,
                                                          const Shape& shape,
                                                          const BackendDevice& device) const {
  if (FaultHookSet()) MaybeFail(FaultPoint::kUpload, shape.to_string());
  if (!tensor.defined() || tensor.shape().sizes() != shape.sizes()) {
    Throw(ErrorCode::kShapeMismatch, "upload: {} given for {}",
          tensor.defined() ? tensor.shape().to_string() : "an undefined tensor", shape.to_string());
  }
  counters_.bytes_in += shape.bytes();
  MaybeFail(FaultPoint::kAllocate, "upload");
  return std::make_shared<HostData>(device, Adopt(tensor.To(shape.dtype())), /*writable=*/false);
}

BackendDataPtr HostBackend::MakeComputationDataFromScalar(const Scalar& scalar,
                                                          const BackendDevice& device) const {
  HostTensor tensor = HostTensor::From(scalar);
  return MakeComputationDataFromTensor(tensor, tensor.shape(), device);
}

HostTensor HostBackend::MakeTensorFromComputationData(
    const BackendDataPtr data, std::optional<DType> logical_scalar_type) const {
  if (FaultHookSet()) MaybeFail(FaultPoint::kDownload, data->shape().to_string());
  HostTensor tensor = TensorOf(data, "download");
  counters_.bytes_out += tensor.bytes();
  if (logical_scalar_type && *logical_scalar_type != tensor.dtype()) {
    return tensor.To(*logical_scalar_type);
  }
  return HostTensor::Copy(tensor.shape(), tensor.data());
}

// Only what may be donated belongs to nobody else. Runs write in place what nobody holds.
HostTensor HostBackend::Share(const BackendDataPtr& data) const {
  HostTensor tensor = TensorOf(data, "share");
  return static_cast<const HostData&>(*data).writable() ? tensor : HostTensor();
}

std::unique_ptr<lazy::LoweringContext> HostBackend::CreateLoweringContext(
    const std::string& name, BackendDevice device, std::span<const Node* const> post_order,
    lazy::Util::EmissionMap emit_status) const {
  MaybeFail(FaultPoint::kLower, name);
  return BackendImplInterface::CreateLoweringContext(name, device, post_order,
                                                     std::move(emit_status));
}

std::unique_ptr<lazy::LoweringContext> HostBackend::CreateLoweringContext(
    const std::string& name, BackendDevice device) const {
  MaybeFail(FaultPoint::kLower, name);
  return BackendImplInterface::CreateLoweringContext(name, device);
}

std::string HostBackend::CreateMetricReport() const {
  std::string report = GetDefaultDeviceType()->toString() + " backend\n";
  for (const auto& [name, value] : GetMetrics()) {
    report += fmt::format("  {:<24} {:.0f}\n", name, value);
  }
  return report;
}

std::map<std::string, double> HostBackend::GetMetrics() const {
  auto number = [](int64_t value) { return static_cast<double>(value); };
  lazy::MemoryInfo memory = GetMemoryInfo(GetBackendDevices()[0]);
  return {{"computations_compiled", number(counters_.compiled)},
          {"computations_instantiated", number(counters_.instantiated)},
          {"computations_run", number(counters_.executed)},
          {"computations_failed", number(counters_.failed)},
          {"bytes_uploaded", number(counters_.bytes_in)},
          {"bytes_downloaded", number(counters_.bytes_out)},
          {"memory_in_use", number(memory.in_use)},
          {"memory_peak", number(memory.peak)}};
}

void HostBackend::SetMemoryLimit(const BackendDevice&, int64_t bytes) const {
  if (bytes < 0) {
    Throw(ErrorCode::kValue, "memory limit is {}, needs at least 0 (0 lifts it)", bytes);
  }
  LimitMemory(bytes);
}

HostTensor HostBackend::TensorOf(const BackendDataPtr& data, const char* what) const {
  const auto* held = dynamic_cast<const HostData*>(data.get());
  if (!held || held->device().type() != type_number_) {
    Throw(ErrorCode::kForeignTensor, "{}: the data belongs to {}, not to {}", what,
          data ? data->device().toString() : "nobody", GetDefaultDeviceType()->toString());
  }
  HostTensor tensor = held->tensor();
  if (!tensor.defined()) {
    Throw<DeviceError>(ErrorCode::kDevice, "{}: {} on {} has no value: not computed, or donated",
                       what, data->shape().to_string(), GetDefaultDeviceType()->toString());
  }
  return tensor;
}

}  // namespace hammock
