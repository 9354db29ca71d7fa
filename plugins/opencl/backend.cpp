// The backend of device "opencl", and its plug-in.
#include <fmt/format.h>
#include <hammock/lazy/backend_interface.h>
#include <hammock/lazy/plugin_adaptor.h>
#include <hammock/lazy/saved_computation.h>

#include <atomic>

#include "program.h"

namespace opencl {

using namespace hammock;
using lazy::BackendDevice;
using lazy::Capability;
using lazy::ComputationPtr;

namespace {

struct DeviceType : lazy::BackendDeviceType {
  DeviceType() : BackendDeviceType(101) {}
  std::string toString() const override { return "opencl"; }
};

/// A block of memory; null while the data is a placeholder, or after it was donated. Its value is
/// there by the order of the queue, unless the data is pending.
class DeviceData : public lazy::BackendData {
 public:
  DeviceData(const BackendDevice& device, const Shape& shape, BlockPtr block = nullptr)
      : BackendData(device, shape), block_(std::move(block)) {}

  void Assign(const BackendData& data) override {
    Set(static_cast<const DeviceData&>(data).block());
  }
  bool HasValue() const override { return block() != nullptr; }

  BlockPtr block() const {
    std::lock_guard lock(mutex_);
    return block_;
  }
  void Set(BlockPtr block) {
    std::lock_guard lock(mutex_);
    block_.swap(block);
  }

 private:
  mutable std::mutex mutex_;
  BlockPtr block_;
};

BlockPtr BlockOf(const BackendDataPtr& data) {
  auto* held = dynamic_cast<DeviceData*>(data.get());
  if (!held) throw ValueError(ErrorCode::kForeignTensor, "opencl: the data is another backend's");
  if (BlockPtr block = held->block()) return block;
  throw DeviceError(ErrorCode::kDevice, "opencl: the data has no value, or was donated");
}

class Backend : public lazy::BackendImplInterface {
 public:
  Backend() {
    for (cl_device_id id : FindDevices()) devices_.push_back(new Device(id));
  }

  void SetRngSeed(size_t) const override {}  // no random state of its own

  // ---- Data

  BackendDataPtr MakeComputationDataFromTensor(const HostTensor& tensor, const Shape& shape,
                                               const BackendDevice& device) const override {
    const HostTensor host = tensor.dtype() == shape.dtype() ? tensor : tensor.To(shape.dtype());
    return std::make_shared<DeviceData>(device, shape, DeviceOf(device).Upload(host));
  }
  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const BackendDevice& device) const override {
    const HostTensor host = HostTensor::From(scalar);
    return MakeComputationDataFromTensor(host, host.shape(), device);
  }
  BackendDataPtr CreateDataPlaceholder(const BackendDevice& device,
                                       const Shape& shape) const override {
    return std::make_shared<DeviceData>(device, shape);
  }
  HostTensor MakeTensorFromComputationData(
      const BackendDataPtr data, std::optional<DType> logical_scalar_type) const override {
    data->WaitReady();
    HostTensor host(data->shape());
    DeviceOf(data->device()).Download(*BlockOf(data), host.mutable_data(), host.bytes());
    return logical_scalar_type ? host.To(*logical_scalar_type) : host;
  }

  // ---- Compilation

  Capability QueryCapability(const Graph& graph, NodeId node,
                             const BackendDevice& device) const override {
    if (graph[node].op->IsComposite()) return {Capability::Verdict::kExpand, ""};
    std::string reason = Program::WhyNot(graph, node, DeviceOf(device));
    if (reason.empty()) return {Capability::Verdict::kRun, ""};
    return {Capability::Verdict::kRefuse, std::move(reason)};
  }
  bool WantsOptimisedGraphs(const BackendDevice&) const override { return true; }
  std::string EagerFallbackDeviceType() const override { return "cpu"; }

  std::vector<ComputationPtr> Compile(std::vector<ComputationPtr> instances) const override {
    for (const ComputationPtr& instance : instances) Prepare(*instance);
    return instances;
  }

  std::string Fingerprint(const BackendDevice& device) const override {
    return DeviceOf(device).Fingerprint();
  }
  std::string SerializeComputation(const ComputationPtr& computation) const override {
    const Device& device = DeviceOf(computation->device());
    lazy::SavedComputation saved(*computation, device.Fingerprint());
    saved.artifact = device.Save(ProgramOf(*computation)->KernelNames());
    return saved.ToBytes();
  }
  ComputationPtr DeserializeComputation(std::string_view bytes,
                                        const BackendDevice& device) const override {
    lazy::SavedComputation saved = lazy::SavedComputation::Parse(bytes);
    ComputationPtr computation = saved.ToComputation(device);
    DeviceOf(device).Load(saved.artifact);
    Prepare(*computation);
    return computation;
  }

  // ---- Execution

  bool IsAsynchronous() const override { return true; }

  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const BackendDevice& device,
                                                 const lazy::RunContext& run) const override {
    std::shared_ptr<const Program> program = ProgramOf(*computation);
    std::vector<BlockPtr> inputs;
    std::vector<bool> donated(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      arguments[i]->WaitReady();  // pending only where its run may fail
      inputs.push_back(BlockOf(arguments[i]));
      // Two values may share a block: an output that is an input as it is.
      const bool alone = inputs.back().use_count() == 2;
      donated[i] = i < run.donated.size() && run.donated[i] && alone;
    }
    Program::Run enqueued = program->Enqueue(inputs, donated, run);
    std::vector<BackendDataPtr> results;
    for (size_t i = 0; i < enqueued.outputs.size(); ++i) {
      results.push_back(std::make_shared<DeviceData>(
          device, computation->result_shape(static_cast<int>(i)), std::move(enqueued.outputs[i])));
    }
    ++executed_;
    if (enqueued.check) {
      CheckLater(DeviceOf(device), program, std::move(enqueued), results);
      return results;
    }
    for (size_t i = 0; i < run.donated.size() && i < arguments.size(); ++i) {
      if (run.donated[i]) static_cast<DeviceData&>(*arguments[i]).Set(nullptr);
    }
    return results;
  }

  void WaitForDevice(const BackendDevice& device) const override { DeviceOf(device).Finish(); }
  void PrepareToExit() const override {
    for (Device* device : devices_) device->Finish();
    const Device::Clock::time_point end = Device::Clock::now() + std::chrono::seconds(1);
    for (Device* device : devices_) device->WriteFiles(end);  // exit does not wait for ever
  }

  // ---- Devices

  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override { return type_; }
  void SetDefaultDeviceType(int8_t type) override {
    if (type != type_->type) throw ValueError(ErrorCode::kUnknownDevice, "opencl: one device type");
  }
  int64_t GetDefaultDeviceOrdinal() const override { return default_; }
  void SetDefaultDeviceOrdinal(int64_t ordinal) override {
    default_ = GetBackendDevice(ordinal).ordinal();
  }
  std::vector<BackendDevice> GetBackendDevices() const override {
    std::vector<BackendDevice> devices;
    for (size_t i = 0; i < devices_.size(); ++i) {
      devices.emplace_back(type_, static_cast<int64_t>(i));
    }
    return devices;
  }
  lazy::MemoryInfo GetMemoryInfo(const BackendDevice& device) const override {
    return DeviceOf(device).memory().Info();
  }
  void SetMemoryLimit(const BackendDevice& device, int64_t bytes) const override {
    if (bytes < 0) throw ValueError(ErrorCode::kValue, "opencl: a memory limit is at least 0");
    DeviceOf(device).memory().SetLimit(bytes);
  }
  void FreeCachedMemory(const BackendDevice& device) const override {
    DeviceOf(device).memory().FreeCached();
  }

  // ---- For people

  std::string CreateMetricReport() const override {
    std::string report = "opencl backend\n";
    for (const Device* device : devices_) report += fmt::format("  {}\n", device->name());
    return report;
  }
  std::map<std::string, double> GetMetrics() const override {
    int64_t compilations = 0;
    for (const Device* device : devices_) compilations += device->compilations();
    return {{"computations_run", static_cast<double>(executed_)},
            {"libraries_compiled", static_cast<double>(compilations)}};
  }
  std::vector<lazy::DeviceFact> DescribeDevice(const BackendDevice& device) const override {
    const Device& held = DeviceOf(device);
    std::vector<lazy::DeviceFact> facts = {
        {"device", held.name()},
        {"driver", TextOf(held.id(), CL_DEVICE_VERSION)},
        {"compute units",
         fmt::format("{}", InfoOf<cl_uint>(held.id(), CL_DEVICE_MAX_COMPUTE_UNITS))}};
    if (!held.has_f64()) facts.push_back({"f64", "the device has no 64-bit floats", true});
    return facts;
  }
  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    return ProgramOf(*computation)->ToText();
  }
  lazy::ComputationInfo DescribeComputation(const ComputationPtr& computation) const override {
    return ProgramOf(*computation)->Describe();
  }

 private:
  Device& DeviceOf(const BackendDevice& device) const {
    return *devices_.at(static_cast<size_t>(device.ordinal()));
  }

  void Prepare(lazy::Computation& computation) const {
    try {
      auto program =
          std::make_shared<const Program>(computation.graph(), DeviceOf(computation.device()));
      computation.artifact_bytes = program->bytes();
      computation.run_bytes = program->peak_bytes();
      computation.artifact = std::const_pointer_cast<Program>(std::move(program));
    } catch (const NotSupported& error) {
      throw CompileError(ErrorCode::kCompile, error.message());
    }
  }

  static std::shared_ptr<const Program> ProgramOf(const lazy::Computation& computation) {
    if (!computation.artifact) throw ValueError(ErrorCode::kValue, "opencl: not compiled");
    return std::static_pointer_cast<const Program>(computation.artifact);
  }

  /// Sets results ready, or to the error of a call that failed, when the run has ended.
  static void CheckLater(Device& device, std::shared_ptr<const Program> program, Program::Run run,
                         std::vector<BackendDataPtr> results) {
    for (const BackendDataPtr& result : results) result->MakePending();
    device.After(std::move(run.ended), [program = std::move(program), check = std::move(run.check),
                                        results = std::move(results)](cl_int status) {
      std::shared_ptr<const Error> failure;
      try {
        check(status);
      } catch (const Error& error) {
        failure = error.Clone();
      }
      for (const BackendDataPtr& result : results) {
        if (failure) {
          result->SetError(failure);
        } else {
          result->SetReady();
        }
      }
    });
  }

  const std::shared_ptr<DeviceType> type_ = std::make_shared<DeviceType>();
  std::vector<Device*> devices_;  // data may outlive everything
  std::atomic<int64_t> default_{0};
  mutable std::atomic<int64_t> executed_{0};
};

}  // namespace
}  // namespace opencl

HAMMOCK_PLUGIN("opencl", "1.0", new opencl::Backend)
