#include "backends/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <typeinfo>

#include "backends/cuda/arrangement.h"
#include "backends/cuda/driver/device_data.h"
#include "backends/cuda/driver/device_state.h"
#include "backends/cuda/driver/failure_dump.h"
#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/driver/libraries.h"
#include "backends/cuda/emulation/emulated_machine.h"
#include "backends/cuda/passes/chunk_attention.h"
#include "backends/cuda/passes/expand_attention.h"
#include "backends/cuda/saved_artifact.h"
#include "backends/cuda/target.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "hammock/config.h"
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
           "`none`: nothing is computed; empty: on GPUs. Read when the first device is used.",
});

constinit config::Option<std::string> kText({
    .name = "cuda.text",
    .default_value = "cuda",
    .doc =
        "What the text of a computation of the CUDA backend shows: `schedule`, its graph, kernels, "
        "calls and memory alone; `cuda`, the text of its kernels as well; `ptx`, what they are "
        "compiled to.",
    .choices = "schedule, cuda, ptx",
});

constinit config::Option<int64_t> kVirtualDevices({
    .name = "cuda.virtual_devices",
    .default_value = 0,
    .doc = "Devices that the CUDA backend shows, each with its own order of work and memory "
           "limit; GPUs are shared by several where there are fewer; 0: one for each GPU. Read "
           "when the first device is used.",
});

using lazy::BackendDevice;
using lazy::ComputationPtr;

constexpr int8_t kType = 4;

class Backend : public lazy::BackendImplInterface {
 public:
  Backend(std::vector<std::shared_ptr<Machine>> machines, const std::string& name, int8_t type)
      : type_(std::make_shared<Type>(name, type)) {
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
      state.machine->Upload(block->address, host.data(), host.bytes());
      bytes_in_ += host.bytes();
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
    HostTensor tensor(data->shape());
    DeviceState& state = StateOf(data->device());
    if (const NumberBytes* number = held.number()) {
      if (state.is_lost()) state.RaiseLost();
      std::memcpy(tensor.mutable_data(), number->data(), static_cast<size_t>(tensor.bytes()));
    } else {
      BlockPtr block = held.block();
      state.Guarded([&] {
        state.machine->Download(tensor.mutable_data(), block->address, tensor.bytes(),
                                held.event().get());
      });
      bytes_out_ += tensor.bytes();
    }
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
                                   const BackendDevice&) const override {
    if (ExpandsAttention(graph, graph[node]) || RunsInChunks(graph, graph[node])) return {};
    if (graph[node].op->IsComposite() && !RunsWhole(graph[node].op))
      return {lazy::Capability::Verdict::kExpand, ""};
    std::string why_not = WhyNot(graph, node);
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
        return StateOf(device).Guarded({program, run.location}, [&] {
          return Run(program, *computation, arguments, device, run, dump);
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
            {"computations_instantiated", number(instantiated_)},
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
    DeviceState& state = StateOf(device);
    state.Guarded([&] { state.memory.FreeCached(); });
  }
  std::string GetComputationBackendText(const ComputationPtr computation) const override {
    const auto* program = static_cast<const Program*>(computation->artifact.get());
    return program ? program->ToText(config::Get<kText>()) : ToText(computation->graph());
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
  struct Type : lazy::BackendDeviceType {
    Type(std::string name, int8_t type) : BackendDeviceType(type), name(std::move(name)) {}
    std::string toString() const override { return name; }
    const std::string name;
  };

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
  static BlockPtr BlockOf(std::span<const BackendDataPtr> arguments, int i) {
    return static_cast<const DeviceData&>(*arguments[i]).block();
  }
  /// The failures of earlier runs that a run depends on, and its own; see Note [Guarded kernels].
  struct Failures {
    std::vector<std::shared_ptr<const RunWords>> earlier;  // runs that may have failed, each once
    bool known = true;                    // no argument comes from another run that may have failed
    Checks::Mask checked_by = 0;          // streams whose checks will tell of the arguments
    std::shared_ptr<const RunWords> own;  // the run has ops that may fail, or several before it
    std::vector<Address> words;           // of `earlier`

    bool may_fail() const { return own || !known || !earlier.empty(); }
    /// The words that tell whether the run has failed; null if it cannot, or if there are none.
    std::shared_ptr<const RunWords> outcome() const {
      if (!known) return nullptr;
      return own || earlier.empty() ? own : earlier[0];
    }
    RunFaults ForRun(bool donates) const {
      if (own) {
        return {reinterpret_cast<Address>(own->faults), own->failed,
                known ? std::span<const Address>(words) : std::span<const Address>()};
      }
      return donates && !words.empty() ? RunFaults{0, words[0], words} : RunFaults();
    }
  };
  static Failures FailuresOf(DeviceState& state, const Program& program,
                             std::span<const BackendDataPtr> arguments) {
    Failures failures;
    for (const BackendDataPtr& argument : arguments) {
      if (argument->IsReady() && !argument->error()) [[likely]]
        continue;
      const auto& held = static_cast<const DeviceData&>(*argument);
      std::shared_ptr<const RunWords> words = held.words();
      failures.checked_by |= held.checked_by();
      if (!words) failures.known = false;
      auto& earlier = failures.earlier;
      if (words && std::find(earlier.begin(), earlier.end(), words) == earlier.end()) {
        failures.words.push_back(words->failed);
        earlier.push_back(std::move(words));
      }
    }
    failures.known = failures.known && failures.earlier.size() <= RunFaults::kMost;
    if (program.fault_count() > 0 || (failures.known && failures.earlier.size() > 1)) {
      failures.own = state.faults.Take(program.fault_count());
    }
    return failures;
  }

  /// The waits and notes of a run that other streams make necessary; see Note [Streams]. Nothing if
  /// there is one stream.
  class OtherStreams {
   public:
    /// The run comes after the work that made its arguments.
    OtherStreams(Machine& machine, std::span<const BackendDataPtr> arguments) : machine_(machine) {
      const int mine = machine.Stream();
      alone_ = machine.Streams() == 1;
      if (alone_) [[likely]]
        return;
      std::array<const Event*, kMostStreams> last = {};
      for (const BackendDataPtr& argument : arguments) {
        auto [block, event] = static_cast<const DeviceData&>(*argument).Look();
        if (event && event->stream != mine) {
          const Event*& latest = last[event->stream];
          if (!latest || latest->number < event->number) latest = event;
        }
        if (block && block->uses.home() != mine) visited_.push_back(block);
      }
      for (const Event* event : last) {
        if (event) machine.ComeAfter(*event);
      }
    }
    /// The run comes after all uses of memory that it overwrites. Called right before it, so that
    /// the event after it comes after this too.
    void TakeOver(Block& block) const {
      if (!alone_) block.uses.TakeOver(machine_);
    }
    void NoteUses(const Event& event, const Failures& failures) const {
      for (Block* block : visited_) block->uses.Note(event);
      for (const auto& words : failures.earlier) words->uses.Note(event);
    }

   private:
    Machine& machine_;
    bool alone_ = true;            // so far only one stream exists
    std::vector<Block*> visited_;  // arguments whose home is another stream
  };

  /// By output: the argument whose memory it takes, or -1. No other value may lie there.
  static std::vector<int> TakeDonated(const Program& program, const Failures& failures,
                                      std::vector<bool> donated,
                                      std::span<const BackendDataPtr> arguments) {
    donated.resize(failures.known ? std::min(donated.size(), arguments.size()) : 0);
    for (size_t i = 0; i < donated.size(); ++i) {
      if (!donated[i]) continue;
      BlockPtr block = BlockOf(arguments, static_cast<int>(i));
      donated[i] =
          block && (!block->is_shared() || block.use_count() == 2);  // its data's, and this one
    }
    return program.donations(failures.may_fail()).Match(donated);
  }

  std::vector<BackendDataPtr> Run(const std::shared_ptr<const Program>& running,
                                  const lazy::Computation& computation,
                                  std::span<const BackendDataPtr> arguments,
                                  const BackendDevice& device, const lazy::RunContext& run,
                                  std::shared_ptr<const FailureDump> dump) const {
    const Program& program = *running;
    DeviceState& state = StateOf(device);
    const int64_t others = lazy::DerivedBytes(device);
    std::vector<BlockPtr> outputs;
    std::vector<Address> in, out;
    std::vector<VaryingNumbers::Number> numbers;
    in.reserve(arguments.size());
    for (const BackendDataPtr& argument : ParametersOf(computation, arguments)) {
      const DeviceData& data = DataOf(argument, "execute");
      if (data.number()) numbers.push_back({in.size(), *data.number()});
      in.push_back(data.address());
    }
    const int slots = program.numbers().Place(numbers);
    for (const VaryingNumbers::Number& number : numbers) {
      if (number.slot < 0) in[number.argument] = UploadNumber(state, arguments[number.argument]);
    }
    for (const SliceStart& start : program.starts()) {
      program.CheckStart(start, NumberOf(arguments[start.input]));
    }
    const Failures failures = FailuresOf(state, program, arguments);
    const std::vector<int> taken = TakeDonated(program, failures, run.donated, arguments);
    for (size_t i = 0; i < program.outputs().size(); ++i) {
      const compiler::OutputSource& source = program.outputs()[i];
      BlockPtr block;
      if (source.input >= 0) {
        UploadNumber(state, arguments[source.input]);
        block = BlockOf(arguments, source.input);
        block->Share();
      } else if (source.same >= 0) {
        block = outputs[source.same];
        block->Share();
      } else if (taken[i] >= 0) {
        block = BlockOf(arguments, taken[i]);
      } else {
        block = state.Take(computation.result_shapes()[i].bytes(), "output", others);
      }
      out.push_back(block->address);
      outputs.push_back(std::move(block));
    }
    const int64_t numbers_at = (program.plan().arena_bytes + 255) / 256 * 256;
    const int64_t arena_bytes =
        slots == 0 ? program.plan().arena_bytes
                   : numbers_at + slots * static_cast<int64_t>(sizeof(NumberBytes));
    BlockPtr arena;
    if (arena_bytes > 0) arena = state.Take(arena_bytes, "values on the way", others);
    if (slots > 0) {
      UploadNumbers(*state.machine, arena->address + static_cast<Address>(numbers_at), slots,
                    numbers, in);
    }
    const bool donates = std::any_of(taken.begin(), taken.end(), [](int i) { return i >= 0; });
    const OtherStreams other_streams(*state.machine, arguments);
    try {
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (taken[i] >= 0) other_streams.TakeOver(*outputs[i]);
      }
      program.Run(in, out, arena ? arena->address : 0, failures.ForRun(donates), run.profile);
    } catch (...) {
      if (auto event = RecordAfterFailure(state)) other_streams.NoteUses(*event, failures);
      throw;
    }
    std::shared_ptr<Event> event = state.machine->RecordEvent();
    other_streams.NoteUses(*event, failures);
    state.NoteRun(*event, {running, run.location});
    const bool checks = program.fault_count() > 0;
    const Checks::Mask checked_by =
        failures.checked_by | (checks ? Checks::MaskOf(event->stream) : 0);
    std::vector<BackendDataPtr> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      results.push_back(std::make_shared<DeviceData>(device, computation.result_shapes()[i],
                                                     state.checks, std::move(outputs[i]), event,
                                                     failures.outcome(), checked_by));
      if (checks) results.back()->MakePending();
    }
    // A run that may have failed must keep its inputs, to be repeated.
    for (size_t i = 0; !failures.may_fail() && i < run.donated.size() && i < arguments.size();
         ++i) {
      if (run.donated[i]) static_cast<DeviceData&>(*arguments[i]).Set(nullptr, nullptr);
    }
    if (checks) {
      CheckLater(state, {running, run.location}, failures.own, std::move(event), results,
                 std::move(dump));
    }
    return results;
  }

  /// An integer; one that the device computes is waited for.
  int64_t NumberOf(const BackendDataPtr& data) const {
    const NumberBytes* number = static_cast<const DeviceData&>(*data).number();
    if (number && data->shape().dtype() == DType::kI64) {
      int64_t value = 0;
      std::memcpy(&value, number->data(), sizeof value);
      return value;
    }
    data->WaitReady();
    return MakeTensorFromComputationData(data, std::nullopt).at(0).ToInt();
  }

  /// Where data is. A number that has no memory yet gets some.
  Address UploadNumber(DeviceState& state, const BackendDataPtr& data) const {
    auto& held = static_cast<DeviceData&>(*data);
    if (!held.number() || held.address() != 0) return held.address();
    const int64_t bytes = data->shape().bytes();
    BlockPtr block = state.Take(bytes, "upload", lazy::DerivedBytes(data->device()));
    state.machine->Upload(block->address, held.number()->data(), bytes);
    bytes_in_ += bytes;
    held.SetIfNone(std::move(block), state.machine->RecordEvent());
    return held.address();
  }

  /// Uploads the numbers that have slots, and lets their arguments point there.
  static void UploadNumbers(Machine& machine, Address to, int slots,
                            std::span<const VaryingNumbers::Number> numbers,
                            std::vector<Address>& in) {
    std::vector<NumberBytes> bytes(static_cast<size_t>(slots));
    for (const VaryingNumbers::Number& number : numbers) {
      if (number.slot < 0) continue;
      bytes[number.slot] = number.value;
      in[number.argument] = to + static_cast<Address>(number.slot) * sizeof(NumberBytes);
    }
    machine.Upload(to, bytes.data(), static_cast<int64_t>(bytes.size() * sizeof(NumberBytes)));
  }

  /// An event after a run that was launched in part and uses memory that is given back now. Null if
  /// the machine is lost.
  static std::shared_ptr<Event> RecordAfterFailure(DeviceState& state) {
    try {
      return state.machine->RecordEvent();
    } catch (const Error&) {
      return nullptr;
    }
  }

  /// Sets results ready, or to the error of an op that failed, when the run has ended.
  static void CheckLater(DeviceState& state, NotedRun run, std::shared_ptr<const RunWords> words,
                         std::shared_ptr<Event> event, std::vector<BackendDataPtr> results,
                         std::shared_ptr<const FailureDump> dump) {
    const int stream = event->stream;
    state.checks.Push(
        stream, [&state, run = std::move(run), words = std::move(words), event = std::move(event),
                 results = std::move(results), dump = std::move(dump)] {
          std::shared_ptr<const Error> failure;
          try {
            state.Guarded(run, [&] {
              state.machine->WaitFor(*event);
              run.program->CheckFaults(words->faults);
            });
          } catch (const Error& error) {
            failure = error.Clone();
            if (dump) dump->Write(error);
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
  mutable std::atomic<int64_t> instantiated_{0};
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
