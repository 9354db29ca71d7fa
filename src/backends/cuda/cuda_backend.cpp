#include "backends/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <typeinfo>

#include "backends/common/collectives.h"
#include "backends/common/named_device_type.h"
#include "backends/cuda/device_state.h"
#include "backends/cuda/driver/device_data.h"
#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/driver/libraries.h"
#include "backends/cuda/emulation/emulated_machine.h"
#include "backends/cuda/execution.h"
#include "backends/cuda/failure_dump.h"
#include "backends/cuda/passes/chunk_attention.h"
#include "backends/cuda/passes/expand_attention.h"
#include "backends/cuda/saved_artifact.h"
#include "backends/cuda/target.h"
#include "base/log.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/lazy/device_exchange.h"
#include "hammock/lazy/saved_computation.h"
#include "hammock/metrics.h"
#include "ir/graph_sizes.h"

namespace hammock {
namespace cuda {
namespace {

constinit config::Option<std::string> kEmulate({
    .name = "cuda.emulate",
    .default_value = "",
    .doc = "C++ compiler by which the CUDA backend runs its kernels on the host, for tests; "
           "`none`: nothing is computed; empty: on GPUs. Read when a CUDA device is first named, "
           "or devices are listed.",
});

std::optional<std::string> CheckText(std::string_view value) {
  for (std::string_view known : {"schedule", "cuda", "ptx", "steps"}) {
    if (value == known) return std::nullopt;
  }
  return "one of schedule, cuda, ptx";
}

void WarnOfOldText();

constinit config::Option<std::string> kText({
    .name = "cuda.text",
    .default_value = "cuda",
    .doc = "Parts of the text of a computation: `schedule`, its graph, kernels, calls and memory "
           "alone; `cuda`, the text of its kernels as well; `ptx`, their code for the GPU as well.",
    .check = CheckText,
    .changed = WarnOfOldText,
});

// `schedule` was `steps`, which is accepted for one version.
void WarnOfOldText() {
  if (config::Get<kText>() != "steps") return;
  LogOnce("cuda.text", LogLevel::kWarn,
          "config: 'steps' of option 'cuda.text' is now 'schedule'; the next version does not know "
          "it");
}

std::string_view TextAsked() {
  const std::string& text = config::Get<kText>();
  return text == "steps" ? "schedule" : std::string_view(text);
}

constinit config::Option<int64_t> kVirtualDevices({
    .name = "cuda.virtual_devices",
    .default_value = 0,
    .doc = "Devices that the CUDA backend shows, each with its own order of work and memory "
           "limit; GPUs are shared by several where there are fewer; 0: one for each GPU. Read "
           "when a CUDA device is first named, or devices are listed.",
});

using lazy::BackendDevice;
using lazy::ComputationPtr;

constexpr int8_t kType = 4;

class Backend : public lazy::BackendImplInterface, public lazy::DeviceExchange {
 public:
  Backend(std::vector<std::shared_ptr<Machine>> machines, const std::string& name, int8_t type)
      : type_(std::make_shared<NamedDeviceType>(name, type)) {
    for (size_t i = 0; i < machines.size(); ++i) {
      devices_.push_back(std::make_unique<DeviceState>(machines[i], fmt::format("{}:{}", name, i)));
    }
    ShareCards(devices_);
  }

  void SetRngSeed(size_t) const override {}
  /// Work that the GPU has begun cannot be taken back; a process that ends waits no longer for it
  /// than for other devices.
  void PrepareToExit() const override {
    for (const auto& device : devices_) {
      auto finished = std::make_shared<std::atomic<bool>>(false);
      std::thread([finished, state = device.get()] {
        state->checks.Drain();
        try {
          state->machine->Finish();
        } catch (const Error&) {  // who wanted to know has asked
        }
        finished->store(true);
      }).detach();
      process_exit::PollUntil(process_exit::Limit(), [&] { return finished->load(); });
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
    BlockUse use = host.bytes() > Machine::kInOrder ? BlockUse::kConcurrent : BlockUse::kInOrder;
    return state.Guarded([&] {
      BlockPtr block = state.Take(host.bytes(), "upload", lazy::DerivedBytes(device), use);
      state.Upload(block->address, host.data(), host.bytes());
      return std::make_shared<DeviceData>(device, shape, state.checks, std::move(block),
                                          state.machine->RecordEvent());
    });
  }
  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const BackendDevice& device) const override {
    HostTensor tensor = HostTensor::From(scalar);
    NumberBytes bytes{};
    std::memcpy(bytes.data(), tensor.data(), static_cast<size_t>(tensor.bytes()));
    return std::make_shared<DeviceData>(device, tensor.shape(), StateOf(device).checks, bytes);
  }
  BackendDataPtr CreateDataPlaceholder(const BackendDevice& device,
                                       const Shape& shape) const override {
    return std::make_shared<DeviceData>(device, shape, StateOf(device).checks);
  }
  HostTensor MakeTensorFromComputationData(
      const BackendDataPtr data, std::optional<DType> logical_scalar_type) const override {
    const DeviceData& held = DataOf(data, "download");
    HostTensor tensor = StateOf(data->device()).Download(held);
    return logical_scalar_type ? tensor.To(*logical_scalar_type) : tensor;
  }
  BackendDataPtr CopyToDevice(const BackendDataPtr& data, const BackendDevice& to) const override {
    const DeviceData& held = DataOf(data, "copy");
    DeviceState& source = StateOf(data->device());
    DeviceState& target = StateOf(to);
    if (source.is_lost()) source.RaiseLost();
    if (const NumberBytes* number = held.number()) {
      return std::make_shared<DeviceData>(to, data->shape(), target.checks, *number);
    }
    BlockPtr from = held.block();
    return target.Guarded([&] {
      BlockPtr block =
          target.Take(from->bytes, "copy", lazy::DerivedBytes(to), BlockUse::kConcurrent);
      target.machine->CopyFrom(*source.machine, block->address, from->address, from->bytes,
                               *held.event());
      std::shared_ptr<Event> event = target.machine->RecordEvent();
      target.KeepUntil(event, from);
      return std::make_shared<DeviceData>(to, data->shape(), target.checks, std::move(block),
                                          std::move(event));
    });
  }

  // ---- Exchange with other libraries

  void ComeAfter(const BackendDevice& device, DeviceExchange::Stream stream) const override {
    DeviceState& state = StateOf(device);
    state.Guarded([&] { state.machine->ComeAfterForeign(stream); });
  }
  void LetComeAfter(const BackendDevice& device, DeviceExchange::Stream stream) const override {
    DeviceState& state = StateOf(device);
    state.Guarded([&] { state.machine->LetForeignComeAfter(stream); });
  }
  int64_t alignment() const override { return 256; }
  BackendDataPtr Borrow(uint64_t memory, const Shape& shape, const BackendDevice& device,
                        Callback<void()> release) const override {
    DeviceState& state = StateOf(device);
    return state.Guarded([&] {
      auto block = std::make_shared<Block>(memory, shape.bytes(), state.machine->Stream(),
                                           std::move(release));
      return std::make_shared<DeviceData>(device, shape, state.checks, std::move(block),
                                          state.machine->RecordEvent());
    });
  }
  Lent Lend(BackendDataPtr data) const override {
    const DeviceData& held = DataOf(data, "lend");
    DeviceState& state = StateOf(data->device());
    return state.Guarded([&]() -> Lent {
      BlockPtr block = held.block();
      // The data and `block` itself are its only holders.
      const bool alone =
          block && data.use_count() == 1 && block.use_count() == 2 && !block->is_shared();
      if (held.event()) state.machine->ComeAfter(*held.event());  // of another thread's stream
      if (!alone) block = Copied(state, held);
      return {block->address, block};
    });
  }
  void TakeBack(Lent lent, const BackendDevice& device,
                DeviceExchange::Stream stream) const override {
    DeviceState& state = StateOf(device);
    state.Guarded([&] {
      state.machine->ComeAfterForeign(stream);
      std::static_pointer_cast<Block>(lent.holder)->uses.Note(*state.machine->RecordEvent());
    });
  }
  Lent ShareMemory(const BackendDataPtr& data) const override {
    const DeviceData& held = DataOf(data, "share");
    DeviceState& state = StateOf(data->device());
    return state.Guarded([&]() -> Lent {
      BlockPtr block = held.block();
      if (held.event()) state.machine->ComeAfter(*held.event());  // of another thread's stream
      if (!block || block->is_borrowed()) {
        block = Copied(state, held);
      } else {
        block->Share();
      }
      return {block->address, block};
    });
  }

  // ---- Compilation and execution

  std::vector<ComputationPtr> Compile(std::vector<ComputationPtr> instances) const override {
    for (const ComputationPtr& instance : instances) {
      Prepare(*instance);
      ++compiled_;
    }
    return instances;
  }
  bool SupportsDimParams(const BackendDevice&) const override { return true; }
  ComputationPtr Instantiate(const ComputationPtr& general,
                             std::span<const int64_t> sizes) const override {
    auto instance = std::make_shared<lazy::Computation>(*general, sizes);
    const auto by_size = ProgramOf(*general)->by_size;
    DeviceState& state = *devices_[OrdinalOf(*general)];
    SetProgram(*instance, state.Guarded([&] { return by_size->At(instance->sizes()); }));
    ++instantiated_;
    return instance;
  }
  bool WantsOptimisedGraphs(const BackendDevice&) const override { return true; }
  bool IsAsynchronous() const override { return true; }
  bool KeepsDonatedOnFailure() const override { return true; }
  void WaitForDevice(const BackendDevice& device) const override {
    DeviceState& state = StateOf(device);
    state.checks.Drain();
    if (state.is_lost()) return state.RaiseLostOnce();
    state.Guarded([&] { state.machine->Finish(); });
  }
  void Hurry(const BackendDevice& device) const override { StateOf(device).checks.Drain(); }
  std::string EagerFallbackDeviceType() const override { return "cpu"; }

  lazy::Capability QueryCapability(const Graph& graph, NodeId node,
                                   const BackendDevice& device) const override {
    if (ExpandsAttention(graph, graph[node]) || RunsInChunks(graph, graph[node])) return {};
    if (graph[node].op->IsComposite() && !RunsWhole(graph, graph[node]))
      return {lazy::Capability::Verdict::kExpand, ""};
    std::string why_not = WhyNot(graph, node, StateOf(device).machine.get());
    if (why_not.empty()) return {};
    return {lazy::Capability::Verdict::kRefuse, why_not};
  }

  std::vector<BackendDataPtr> ExecuteComputation(ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const BackendDevice& device,
                                                 const lazy::RunContext& run) const override {
    std::shared_ptr<const Program> program = ProgramOf(*computation);
    std::shared_ptr<const FailureDump> dump;
    if (!config::Get<kDumpFailures>().empty()) [[unlikely]] {
      dump = PrepareDump(*computation, program, ParametersOf(*computation, arguments));
    }
    try {
      std::vector<BackendDataPtr> results = WithPlanInErrors(*program, [&] {
        for (const BackendDataPtr& argument : ParametersOf(*computation, arguments)) {
          DataOf(argument, "execute");
        }
        DeviceState& state = StateOf(device);
        const CollectiveScope collectives(run.collectives);
        return state.Guarded({program, run.location}, [&] {
          return Execute(state, program, {*computation, arguments, device, run}, dump);
        });
      });
      ++executed_;
      return results;
    } catch (const DeviceError& error) {
      if (dump) dump->Write(error);
      throw;
    }
  }

  std::string Fingerprint(const BackendDevice& device) const override {
    return ProgramFingerprint(*StateOf(device).machine);
  }
  std::string SerializeComputation(const ComputationPtr& computation) const override {
    DeviceState& state = *devices_[OrdinalOf(*computation)];
    lazy::SavedComputation saved(*computation, ProgramFingerprint(*state.machine));
    saved.artifact = SaveArtifact(*ProgramOf(*computation), *state.machine);
    return saved.ToBytes();
  }
  ComputationPtr DeserializeComputation(std::string_view bytes,
                                        const BackendDevice& device) const override {
    lazy::SavedComputation saved = lazy::SavedComputation::Parse(bytes);
    ComputationPtr computation = saved.ToComputation(device);
    DeviceState& state = StateOf(device);
    SetProgram(*computation, state.Guarded([&] {
      return LoadArtifact(*computation, saved.artifact, state.machine);
    }));
    return computation;
  }

  // ---- Devices

  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override { return type_; }
  void SetDefaultDeviceType(int8_t type) override { type_->RequireIs(type); }
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
    int64_t uploaded = 0, downloaded = 0;
    for (const auto& state : devices_) {
      uploaded += state->uploaded();
      downloaded += state->downloaded();
    }
    return {{"computations_compiled", number(compiled_)},
            {"computations_instantiated", number(instantiated_)},
            {"computations_run", number(executed_)},
            {"bytes_uploaded", number(uploaded)},
            {"bytes_downloaded", number(downloaded)}};
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
    DeviceState& state = StateOf(device);
    state.Guarded([&] { state.memory.FreeCached(); });
  }
  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    return program ? program->ToText(TextAsked()) : ToText(computation->graph());
  }
  std::vector<lazy::DeviceFact> DescribeDevice(const BackendDevice& device) const override {
    DeviceState& state = StateOf(device);
    std::vector<lazy::DeviceFact> facts = {{"gpu", state.machine->name()}};
    facts.push_back(
        {"device memory",
         metrics::Repr(metrics::Kind::kBytes, static_cast<double>(state.machine->memory_bytes()))});
    if (size_t sharers = state.on_card().size(); sharers > 1) {
      facts.push_back({"shared", fmt::format("{} devices are on this card", sharers)});
    }
    for (lazy::DeviceFact& fact : DescribeLibraries()) facts.push_back(std::move(fact));
    if (auto error = state.lost()) facts.push_back({"state", error->what(), true});
    return facts;
  }
  lazy::ComputationInfo DescribeComputation(const ComputationPtr& computation) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    return program ? program->Describe() : BackendImplInterface::DescribeComputation(computation);
  }

 private:
  DeviceState& StateOf(const BackendDevice& device) const {
    int64_t ordinal = device.ordinal();
    HAMMOCK_CHECK(ordinal >= 0 && static_cast<size_t>(ordinal) < devices_.size(), "device {}",
                  device.toString());
    return *devices_[ordinal];
  }

  std::shared_ptr<const FailureDump> PrepareDump(const lazy::Computation& computation,
                                                 std::shared_ptr<const Program> program,
                                                 std::span<const BackendDataPtr> arguments) const {
    std::vector<HostTensor> inputs;
    for (const BackendDataPtr& argument : arguments) {
      inputs.push_back(MakeTensorFromComputationData(argument, std::nullopt));
    }
    const Graph& graph = computation.graph();
    return std::make_shared<FailureDump>(
        graph.dim_params.empty() ? graph : AtSizes(graph, computation.sizes()), std::move(program),
        std::move(inputs));
  }

  /// On the calling thread's stream, which comes after the value.
  static BlockPtr Copied(DeviceState& state, const DeviceData& held) {
    const int64_t bytes = held.shape().bytes();
    BlockPtr copy = state.Take(bytes, "lend", lazy::DerivedBytes(held.device()));
    if (const NumberBytes* number = held.number()) {
      state.Upload(copy->address, number->data(), bytes);
    } else {
      state.machine->Copy(copy->address, held.address(), bytes);
    }
    std::shared_ptr<Event> event = state.machine->RecordEvent();
    if (BlockPtr source = held.block()) source->uses.Note(*event);
    return copy;
  }

  const DeviceData& DataOf(const BackendDataPtr& data, const char* what) const {
    // A program may have hundreds of arguments: no search for the type.
    const lazy::BackendData* any = data.get();
    const auto* held =
        any && typeid(*any) == typeid(DeviceData) ? static_cast<const DeviceData*>(any) : nullptr;
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
      DeviceState& state = *devices_[OrdinalOf(computation)];
      SetProgram(computation,
                 state.Guarded([&] { return CompileProgram(computation, Target{state.machine}); }));
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

  static std::shared_ptr<const Program> ProgramOf(const lazy::Computation& computation) {
    HAMMOCK_CHECK(computation.artifact, "computation '{}' was not compiled", computation.name());
    return std::static_pointer_cast<const Program>(computation.artifact);
  }

  /// The arguments that are read; see KeepsDonatedOnFailure.
  static std::span<const BackendDataPtr> ParametersOf(const lazy::Computation& computation,
                                                      std::span<const BackendDataPtr> arguments) {
    return arguments.first(std::min(arguments.size(), computation.parameter_shapes().size()));
  }

  const std::shared_ptr<NamedDeviceType> type_;
  std::vector<std::unique_ptr<DeviceState>> devices_;
  std::atomic<int64_t> default_ordinal_{0};
  mutable std::atomic<int64_t> compiled_{0};
  mutable std::atomic<int64_t> instantiated_{0};
  mutable std::atomic<int64_t> executed_{0};
};

}  // namespace

std::unique_ptr<lazy::BackendImplInterface> MakeBackend(
    std::vector<std::shared_ptr<Machine>> machines, const std::string& name, int8_t type) {
  return std::make_unique<Backend>(std::move(machines), name, type);
}

namespace {

std::vector<std::shared_ptr<Machine>> TheMachines() {
  std::vector<std::shared_ptr<Machine>> machines;
  const std::string& compiler = config::Get<kEmulate>();
  const int virtual_devices = static_cast<int>(config::Get<kVirtualDevices>());
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
