#include "backends/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "backends/cuda/device_memory.h"
#include "backends/cuda/emulation/emulated_machine.h"
#include "backends/cuda/expand_attention.h"
#include "backends/cuda/gpu_machine.h"
#include "backends/cuda/program.h"
#include "base/throw.h"
#include "base/work_queue.h"
#include "hammock/config.h"

namespace hammock {
namespace cuda {
namespace {

using lazy::BackendDevice;
using lazy::ComputationPtr;

constexpr int8_t kType = 4;
constexpr size_t kMostChecks = 64;  // runs that may be ahead of what is known of their success

/// A block of device memory; null while it is a placeholder or after it was donated. Its value is
/// there for everything that is asked of its machine later, and for the host from `moment` on.
class DeviceData : public lazy::BackendData {
 public:
  DeviceData(const BackendDevice& device, const Shape& shape) : BackendData(device, shape) {}
  DeviceData(const BackendDevice& device, const Shape& shape, BlockPtr block,
             std::shared_ptr<Moment> moment)
      : BackendData(device, shape), block_(std::move(block)), moment_(std::move(moment)) {}

  void Assign(const BackendData& data) override {
    const auto* other = dynamic_cast<const DeviceData*>(&data);
    HAMMOCK_CHECK(other && other->shape() == shape(), "{} cannot receive {}", shape().to_string(),
                  data.shape().to_string());
    Set(other->block(), other->moment());
  }
  bool HasValue() const override { return block() != nullptr; }

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

struct DeviceState {
  DeviceState(std::shared_ptr<Machine> machine, std::string name)
      : machine(machine),
        name(std::move(name)),
        memory(machine, this->name.c_str()),
        checks(this->name + " checks", kMostChecks) {}
  std::shared_ptr<Machine> machine;
  const std::string name;
  DeviceMemory memory;
  WorkQueue checks;  ///< of runs in which an op may have failed
};

class Backend : public lazy::BackendImplInterface {
 public:
  Backend(std::vector<std::shared_ptr<Machine>> machines, const std::string& name, int8_t type)
      : type_(std::make_shared<Type>(name, type)) {
    for (size_t i = 0; i < machines.size(); ++i) {
      devices_.push_back(std::make_unique<DeviceState>(machines[i], fmt::format("{}:{}", name, i)));
    }
  }

  void SetRngSeed(size_t) const override {}
  void PrepareToExit() const override {
    for (const auto& device : devices_) {
      device->checks.Drain();
      device->machine->Finish();
    }
  }

  // ---- Data

  BackendDataPtr MakeComputationDataFromTensor(const HostTensor& tensor, const Shape& shape,
                                               const BackendDevice& device) const override {
    if (!tensor.defined() || tensor.shape().sizes() != shape.sizes()) {
      Throw(ErrorCode::kShapeMismatch, "upload: {} given for {}",
            tensor.defined() ? tensor.shape().to_string() : "an undefined tensor",
            shape.to_string());
    }
    HostTensor host = tensor.To(shape.dtype());
    DeviceState& state = StateOf(device);
    BlockPtr block = state.memory.Take(host.bytes(), "upload", lazy::DerivedBytes(device));
    state.machine->Upload(block->address, host.data(), host.bytes());
    bytes_in_ += host.bytes();
    return std::make_shared<DeviceData>(device, shape, std::move(block), state.machine->Mark());
  }
  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const BackendDevice& device) const override {
    HostTensor tensor = HostTensor::From(scalar);
    return MakeComputationDataFromTensor(tensor, tensor.shape(), device);
  }
  BackendDataPtr CreateDataPlaceholder(const BackendDevice& device,
                                       const Shape& shape) const override {
    return std::make_shared<DeviceData>(device, shape);
  }
  HostTensor MakeTensorFromComputationData(
      const BackendDataPtr data, std::optional<DType> logical_scalar_type) const override {
    const DeviceData& held = DataOf(data, "download");
    BlockPtr block = held.block();
    HostTensor tensor(data->shape());
    StateOf(data->device())
        .machine->Download(tensor.mutable_data(), block->address, tensor.bytes(),
                           held.moment().get());
    bytes_out_ += tensor.bytes();
    return logical_scalar_type ? tensor.To(*logical_scalar_type) : tensor;
  }

  // ---- Compilation and execution

  std::vector<ComputationPtr> Compile(std::vector<ComputationPtr> instances) const override {
    for (const ComputationPtr& instance : instances) {
      Prepare(*instance);
      ++compiled_;
    }
    return instances;
  }
  bool WantsOptimisedGraphs(const BackendDevice&) const override { return true; }
  bool IsAsynchronous() const override { return true; }
  std::string EagerFallbackDeviceType() const override { return "cpu"; }

  lazy::Capability QueryCapability(const Graph& graph, NodeId node,
                                   const BackendDevice&) const override {
    if (ExpandsAttention(graph, graph[node])) return {};
    if (graph[node].op->IsComposite() && !RunsWhole(graph[node].op))
      return {lazy::Capability::Verdict::kExpand, ""};
    std::string why_not = WhyNot(graph, node);
    if (why_not.empty()) return {};
    return {lazy::Capability::Verdict::kRefuse, why_not};
  }

  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const BackendDevice& device,
                                                 const std::vector<bool>& donated) const override {
    const auto& program = ProgramOf(*computation, device);
    try {
      std::vector<BackendDataPtr> results = Run(program, *computation, arguments, device, donated);
      for (size_t i = 0; i < donated.size() && i < arguments.size(); ++i) {
        if (donated[i]) static_cast<DeviceData&>(*arguments[i]).Set(nullptr, nullptr);
      }
      ++executed_;
      return results;
    } catch (OutOfMemory& error) {
      OutOfMemory with_plan(
          error.code(),
          fmt::format("{}; the run needs {} bytes besides its inputs, most for {}", error.message(),
                      program.plan().peak_bytes(), program.LargestBuffers()));
      with_plan.SetWhere(error.where());
      throw with_plan;
    }
  }

  std::string Fingerprint(const BackendDevice& device) const override {
    return "cuda 1 " + StateOf(device).machine->code_key();
  }

  // ---- Devices

  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override { return type_; }
  void SetDefaultDeviceType(int8_t type) override {
    if (type != type_->type) {
      Throw(ErrorCode::kUnknownDevice, "{}: device type {} is unknown, there is only {}",
            type_->name, type, type_->type);
    }
  }
  int64_t GetDefaultDeviceOrdinal() const override { return default_ordinal_; }
  void SetDefaultDeviceOrdinal(int64_t ordinal) override {
    default_ordinal_ = GetBackendDevice(ordinal).ordinal();
  }
  std::vector<BackendDevice> GetBackendDevices() const override {
    std::vector<BackendDevice> devices;
    for (size_t i = 0; i < devices_.size(); ++i) {
      devices.emplace_back(type_, static_cast<int64_t>(i));
    }
    return devices;
  }

  // ---- Debugging and metrics

  std::string CreateMetricReport() const override {
    std::string report = type_->name + " backend\n";
    for (const auto& state : devices_) {
      report += fmt::format("  {}: {}\n", state->name, state->machine->name());
    }
    return report;
  }
  std::map<std::string, double> GetMetrics() const override {
    auto number = [](int64_t value) { return static_cast<double>(value); };
    return {{"computations_compiled", number(compiled_)},
            {"computations_run", number(executed_)},
            {"bytes_uploaded", number(bytes_in_)},
            {"bytes_downloaded", number(bytes_out_)}};
  }
  lazy::MemoryInfo GetMemoryInfo(const BackendDevice& device) const override {
    lazy::MemoryInfo info = StateOf(device).memory.Info();
    info.derived = lazy::DerivedBytes(device);
    return info;
  }
  void SetMemoryLimit(const BackendDevice& device, int64_t bytes) const override {
    if (bytes < 0) {
      Throw(ErrorCode::kValue, "memory limit is {}, needs at least 0 (0 lifts it)", bytes);
    }
    StateOf(device).memory.SetLimit(bytes);
  }
  void FreeCachedMemory(const BackendDevice& device) const override {
    StateOf(device).memory.FreeCached();
  }
  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    return program ? program->ToText("cuda") : ToText(computation->graph());
  }
  lazy::ComputationInfo DescribeComputation(const ComputationPtr& computation) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    return program ? program->Describe() : BackendImplInterface::DescribeComputation(computation);
  }

 private:
  struct Type : lazy::BackendDeviceType {
    Type(std::string name, int8_t type) : BackendDeviceType(type), name(std::move(name)) {}
    std::string toString() const override { return name; }
    const std::string name;
  };

  DeviceState& StateOf(const BackendDevice& device) const {
    int64_t ordinal = device.ordinal();
    HAMMOCK_CHECK(ordinal >= 0 && static_cast<size_t>(ordinal) < devices_.size(), "device {}",
                  device.toString());
    return *devices_[static_cast<size_t>(ordinal)];
  }

  const DeviceData& DataOf(const BackendDataPtr& data, const char* what) const {
    const auto* held = dynamic_cast<const DeviceData*>(data.get());
    if (!held || held->device().type() != type_->type) {
      Throw(ErrorCode::kForeignTensor, "{}: the data belongs to {}, not to {}", what,
            data ? data->device().toString() : "nobody", type_->name);
    }
    if (!held->HasValue()) {
      Throw<DeviceError>(ErrorCode::kDevice, "{}: {} on {} has no value: not computed, or donated",
                         what, data->shape().to_string(), type_->name);
    }
    return *held;
  }

  void Prepare(lazy::Computation& computation) const {
    try {
      size_t ordinal = OrdinalOf(computation);
      auto program = std::make_shared<Program>(computation.graph(), devices_[ordinal]->machine);
      computation.artifact_bytes = program->bytes();
      computation.artifact = std::move(program);
    } catch (const NotSupported& error) {
      Throw<CompileError>(ErrorCode::kCompile, "{}: {}", computation.name(), error.message());
    }
  }

  /// The device that it is compiled for: "cuda:1".
  size_t OrdinalOf(const lazy::Computation& computation) const {
    for (size_t i = 0; i < devices_.size(); ++i) {
      for (const std::string& device : computation.devices) {
        if (device == devices_[i]->name) return i;
      }
    }
    return 0;
  }

  const Program& ProgramOf(const lazy::Computation& computation, const BackendDevice&) const {
    const auto* program = static_cast<const Program*>(computation.artifact.get());
    HAMMOCK_CHECK(program, "computation '{}' was not compiled", computation.name());
    return *program;
  }

  /// A donated input among `wanted` that nobody else holds; null: none.
  static BlockPtr TakeDonated(const std::vector<int>& wanted, const std::vector<bool>& donated,
                              const std::vector<BlockPtr>& inputs) {
    for (int i : wanted) {
      size_t input = static_cast<size_t>(i);
      // Held by its data and by this run; an output that has taken it counts as a third.
      if (input < donated.size() && donated[input] && inputs[input].use_count() == 2) {
        return inputs[input];
      }
    }
    return nullptr;
  }

  std::vector<BackendDataPtr> Run(const Program& program, const lazy::Computation& computation,
                                  std::span<const BackendDataPtr> arguments,
                                  const BackendDevice& device,
                                  const std::vector<bool>& donated) const {
    DeviceState& state = StateOf(device);
    const int64_t others = lazy::DerivedBytes(device);
    std::vector<BlockPtr> inputs, outputs;
    std::vector<Address> in, out;
    for (const BackendDataPtr& argument : arguments) {
      inputs.push_back(DataOf(argument, "execute").block());
      in.push_back(inputs.back()->address);
    }
    for (size_t i = 0; i < program.outputs().size(); ++i) {
      const compiler::OutputSource& source = program.outputs()[i];
      BlockPtr block;
      if (source.input >= 0) {
        block = inputs[static_cast<size_t>(source.input)];
      } else if (source.same >= 0) {
        block = outputs[static_cast<size_t>(source.same)];
      } else {
        block = TakeDonated(program.Replaceable(i), donated, inputs);
        if (!block) {
          block = state.memory.Take(computation.result_shapes()[i].bytes(), "output", others);
        }
      }
      out.push_back(block->address);
      outputs.push_back(std::move(block));
    }
    BlockPtr arena;
    if (program.plan().arena_bytes > 0) {
      arena = state.memory.Take(program.plan().arena_bytes, "values on the way", others);
    }
    program.Run(in, out, arena ? arena->address : 0);
    std::shared_ptr<Moment> moment = state.machine->Mark();
    std::vector<BackendDataPtr> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      results.push_back(std::make_shared<DeviceData>(device, computation.result_shapes()[i],
                                                     std::move(outputs[i]), moment));
      if (program.can_fail()) results.back()->MakePending();
    }
    if (program.can_fail()) CheckLater(state, computation.artifact, arena, moment, results);
    return results;
  }

  /// Sets results ready, or to the error of an op that failed, when the run has ended.
  static void CheckLater(DeviceState& state, const std::shared_ptr<void>& artifact, BlockPtr arena,
                         std::shared_ptr<Moment> moment, std::vector<BackendDataPtr> results) {
    state.checks.Push([artifact, arena = std::move(arena), moment = std::move(moment),
                       results = std::move(results)] {
      std::shared_ptr<const Error> failure;
      try {
        static_cast<const Program*>(artifact.get())->CheckFaults(arena->address, moment.get());
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

  const std::shared_ptr<Type> type_;
  std::vector<std::unique_ptr<DeviceState>> devices_;
  std::atomic<int64_t> default_ordinal_{0};
  mutable std::atomic<int64_t> compiled_{0};
  mutable std::atomic<int64_t> executed_{0};
  mutable std::atomic<int64_t> bytes_in_{0};
  mutable std::atomic<int64_t> bytes_out_{0};
};

}  // namespace

std::unique_ptr<lazy::BackendImplInterface> MakeBackend(
    std::vector<std::shared_ptr<Machine>> machines, const std::string& name, int8_t type) {
  return std::make_unique<Backend>(std::move(machines), name, type);
}

namespace {

std::vector<std::shared_ptr<Machine>> TheMachines() {
  std::vector<std::shared_ptr<Machine>> machines;
  const std::string& compiler = config::Get<config::kCudaEmulate>();
  const int virtual_devices = static_cast<int>(config::Get<config::kCudaVirtualDevices>());
  if (!compiler.empty()) {
    for (int i = 0; i < std::max(1, virtual_devices); ++i) {
      machines.push_back(MakeEmulatedMachine(compiler));
    }
    return machines;
  }
  if (!WhyNoGpu().empty()) return machines;
  int gpus = GpuCount();
  for (int i = 0; i < (virtual_devices > 0 ? virtual_devices : gpus); ++i) {
    machines.push_back(MakeGpuMachine(i % gpus));
  }
  return machines;
}

}  // namespace
}  // namespace cuda

lazy::BackendImplInterface* CudaBackend() {
  static lazy::BackendImplInterface* backend = []() -> lazy::BackendImplInterface* {
    std::vector<std::shared_ptr<cuda::Machine>> machines = cuda::TheMachines();
    if (machines.empty()) return nullptr;
    return cuda::MakeBackend(std::move(machines), "cuda", cuda::kType).release();
  }();
  return backend;
}

}  // namespace hammock
