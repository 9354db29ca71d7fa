#pragma once
/// Calls of a backend's methods. Whatever a method throws leaves here as a hammock::Error with the
/// device, the method and a line, and results that break the contract are errors, before anything
/// depends on them. No runtime lock is held while a method runs.

#include <span>
#include <vector>

#include "hammock/host_tensor.h"
#include "runtime/devices/backend_registry.h"

namespace hammock {

/// Wraps the exception in flight and raises it; one that is an Error keeps its type. `code` says
/// what was being done.
[[noreturn, gnu::cold]] void RaiseFromBackend(const std::string& device, const char* method,
                                              ErrorCode code);

/// Any method: CallBackend(device, "SetRngSeed", [&](auto& backend) { backend.SetRngSeed(7); })
template <class Fn>
decltype(auto) CallBackend(const DeviceEntry& device, const char* method, Fn&& call,
                           ErrorCode code = ErrorCode::kDevice) {
  try {
    return call(*device.backend);
  } catch (...) {
    RaiseFromBackend(device.name(), method, code);
  }
}

lazy::MemoryInfo MemoryOf(const DeviceEntry& device);

// ---- Those with results, which are checked. Where memory is short they free some and try again.

/// One data of each tensor, in order.
std::vector<BackendDataPtr> Upload(DeviceEntry& device, std::span<const HostTensor> tensors);
BackendDataPtr UploadScalar(DeviceEntry& device, const Scalar& value);
/// Pending.
BackendDataPtr NewPlaceholder(DeviceEntry& device, const Shape& shape);
/// Row-major, of the data's shape and dtype.
std::vector<HostTensor> Download(DeviceEntry& device, std::span<const BackendDataPtr> data);
/// Null where there is no direct way.
BackendDataPtr CopyDirectly(DeviceEntry& to, const BackendDataPtr& data);
/// One data per result, of its shape.
std::vector<BackendDataPtr> Execute(DeviceEntry& device, const lazy::ComputationPtr& computation,
                                    std::span<const BackendDataPtr> arguments,
                                    const lazy::RunContext& run);
lazy::Capability CapabilityOf(const DeviceEntry& device, const Graph& graph, NodeId node);
/// From what SerializeComputation returned; null where that was for another build or device.
lazy::ComputationPtr Deserialize(DeviceEntry& device, std::string_view bytes);
/// CompileError for what is no Error.
lazy::ComputationPtr Compile(DeviceEntry& device, const lazy::ComputationPtr& computation);

}  // namespace hammock
