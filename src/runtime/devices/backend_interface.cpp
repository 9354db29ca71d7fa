#include "hammock/lazy/backend_interface.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/throw.h"
#include "hammock/lazy/saved_computation.h"

namespace hammock::lazy {

BackendImplInterface::~BackendImplInterface() = default;

const IrBuilder* BackendImplInterface::GetIrBuilder() const {
  static const IrBuilder builder;
  return &builder;
}

std::vector<BackendDataPtr> BackendImplInterface::MakeComputationDataFromTensors(
    std::span<const HostTensor> tensors, const BackendDevice& device) const {
  std::vector<BackendDataPtr> data;
  for (const HostTensor& tensor : tensors) {
    data.push_back(MakeComputationDataFromTensor(tensor, tensor.shape(), device));
  }
  return data;
}

BackendDataPtr BackendImplInterface::GetComputationDataFromNode(const Node* node) const {
  return node && node->IsLeaf() ? node->slots()[0].data : nullptr;
}

std::vector<HostTensor> BackendImplInterface::MakeTensorsFromComputationData(
    std::span<const BackendDataPtr> data) const {
  std::vector<HostTensor> tensors;
  for (const BackendDataPtr& each : data) {
    tensors.push_back(MakeTensorFromComputationData(each, std::nullopt));
  }
  return tensors;
}

std::unique_ptr<LoweringContext> BackendImplInterface::CreateLoweringContext(
    const std::string& name, BackendDevice device, std::span<const Node* const> post_order,
    Util::EmissionMap emit_status) const {
  return std::make_unique<LoweringContext>(name, std::move(device), post_order,
                                           std::move(emit_status));
}

std::unique_ptr<LoweringContext> BackendImplInterface::CreateLoweringContext(
    const std::string& name, BackendDevice device) const {
  return std::make_unique<LoweringContext>(name, std::move(device));
}

std::vector<std::string> BackendImplInterface::GetCompilationDevices(
    const std::string& device, std::span<const std::string> devices) const {
  if (devices.empty()) return {device};
  return {devices.begin(), devices.end()};
}

ComputationPtr BackendImplInterface::Instantiate(const ComputationPtr& general,
                                                 std::span<const int64_t> sizes) const {
  auto instance = std::make_shared<Computation>(*general, sizes);
  instance->artifact = general->artifact;
  return instance;
}

Capability BackendImplInterface::QueryCapability(const Graph& graph, NodeId node,
                                                 const BackendDevice&) const {
  if (graph[node].op->IsComposite()) return {Capability::Verdict::kExpand, ""};
  return {};
}

std::string BackendImplInterface::Fingerprint(const BackendDevice& device) const {
  return fmt::format("{} abi {}", device.toString(), kBackendAbiVersion);
}

// By default a saved computation is compiled anew when it is loaded; the lowering is spared.
std::string BackendImplInterface::SerializeComputation(const ComputationPtr& computation) const {
  if (!computation) Throw(ErrorCode::kValue, "SerializeComputation: the computation is null");
  return SavedComputation(*computation, Fingerprint(computation->device())).ToBytes();
}

Compatibility BackendImplInterface::CheckCompatibility(std::string_view bytes,
                                                       const BackendDevice& device) const {
  try {
    return SavedComputation::FingerprintOf(bytes) == Fingerprint(device)
               ? Compatibility::kOptimal
               : Compatibility::kRecompile;
  } catch (const ValueError&) {
    return Compatibility::kUnsupported;
  }
}

ComputationPtr BackendImplInterface::DeserializeComputation(std::string_view bytes,
                                                            const BackendDevice& device) const {
  return Compile({SavedComputation::Parse(bytes).ToComputation(device)}).at(0);
}

BackendDevice BackendImplInterface::GetBackendDevice(int64_t ordinal) const {
  if (ordinal == -1) ordinal = GetDefaultDeviceOrdinal();
  std::vector<std::string> names;
  for (const BackendDevice& device : GetBackendDevices()) {
    if (device.ordinal() == ordinal) return device;
    names.push_back(device.toString());
  }
  Throw(ErrorCode::kBadOrdinal, "{}: there is no device {}; there are: {}",
        GetDefaultDeviceType()->toString(), ordinal, fmt::join(names, ", "));
}

void BackendImplInterface::SetMemoryLimit(const BackendDevice& device, int64_t) const {
  Throw<NotSupported>(ErrorCode::kNotSupported, "{}: memory cannot be limited", device.toString());
}

std::string BackendImplInterface::GetComputationBackendText(
    const ComputationPtr computation) const {
  if (!computation) Throw(ErrorCode::kValue, "GetComputationBackendText: the computation is null");
  return computation->to_string();
}

ComputationInfo BackendImplInterface::DescribeComputation(const ComputationPtr& computation) const {
  if (!computation) Throw(ErrorCode::kValue, "DescribeComputation: the computation is null");
  return {computation->graph(), {}, 0};
}

}  // namespace hammock::lazy
