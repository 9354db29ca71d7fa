#include "plugins/plugin_backend.h"

#include <fmt/format.h>

#include <array>
#include <thread>

#include "base/log.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/lazy/saved_computation.h"
#include "hammock/option.h"
#include "plugins/graph_bytes.h"
#include "plugins/plugin_data.h"

namespace hammock::plugins {

using lazy::BackendDevice;
using lazy::Capability;
using lazy::ComputationPtr;

namespace {

constinit config::Option<int64_t> kTimeout({
    .name = "plugin_timeout",
    .default_value = 0,
    .doc =
        "Milliseconds after which a call of a plug-in counts as hanging: its device is lost, "
        "and whoever waits for it gets an error. Calls then go through another thread. 0: never.",
});

struct PluginDeviceType : lazy::BackendDeviceType {
  explicit PluginDeviceType(std::string name) : BackendDeviceType(100), name(std::move(name)) {}
  std::string toString() const override { return name; }
  const std::string name;
};

/// Without results, or with those that go straight to the caller's memory.
struct NoState {};

/// A list that is short as a rule.
template <class T, size_t N = 6>
class ShortList {
 public:
  explicit ShortList(size_t size) : size_(size) {
    if (size > N) long_.resize(size);
  }
  T* data() { return size_ > N ? long_.data() : short_.data(); }
  T& operator[](size_t i) { return data()[i]; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  std::array<T, N> short_ = {};
  std::vector<T> long_;
};

HammockShape ShapeOf(const Shape& shape) {
  return {static_cast<uint32_t>(shape.dtype()), static_cast<uint32_t>(shape.rank()),
          shape.sizes().begin()};
}

/// A compiled computation of the plug-in.
struct Executable {
  Executable(const PluginBackend& plugin, HammockExecutable handle)
      : plugin(plugin), handle(handle) {}
  ~Executable() { plugin.ReleaseExecutable(handle); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const PluginBackend& plugin;
  const HammockExecutable handle;
};

HammockExecutable ExecutableOf(const ComputationPtr& computation) {
  if (!computation) Throw(ErrorCode::kValue, "the computation is null");
  if (!computation->artifact) {
    Throw(ErrorCode::kValue, "computation '{}' was not compiled", computation->name());
  }
  return static_cast<const Executable*>(computation->artifact.get())->handle;
}

/// Data of the plug-in has the object of its device type.
PluginData& DataOf(const PluginBackend& plugin, const BackendDataPtr& data) {
  if (data && data->device().device_type() == plugin.type()) [[likely]]
    return static_cast<PluginData&>(*data);
  Throw(ErrorCode::kForeignTensor, "{}: the data is that of another backend", plugin.table().name);
}

HammockData HandleOf(const PluginBackend& plugin, const BackendDataPtr& data) {
  if (const HammockData handle = DataOf(plugin, data).data()) [[likely]]
    return handle;
  Throw<DeviceError>(ErrorCode::kDevice, "{}: the data has no value, or was donated",
                     plugin.table().name);
}

}  // namespace

// ---- Calls

PluginBackend::PluginBackend(const HammockPlugin& table, std::unique_ptr<PluginHost> host,
                             std::string path)
    : table_(table),
      host_(std::move(host)),
      path_(std::move(path)),
      type_(std::make_shared<PluginDeviceType>(table.name)) {}

void PluginBackend::ThrowIfLost() const {
  if (!lost_.load(std::memory_order_acquire)) [[likely]]
    return;
  std::lock_guard lock(lost_mutex_);
  why_lost_->Raise();
}

void PluginBackend::Lose(const char* function, int64_t milliseconds) const {
  {
    std::lock_guard lock(lost_mutex_);
    if (lost_) return;
    why_lost_ = std::make_shared<DeviceError>(
        ErrorCode::kDevice,
        fmt::format("{}: the device is lost: {} has not ended within {} ms (option "
                    "`plugin_timeout`)",
                    table_.name, function, milliseconds));
    lost_.store(true, std::memory_order_release);
  }
  Log(LogLevel::kError, "{}", why_lost_->message());
  host_->FailEvents(why_lost_);
}

void PluginBackend::WatchEvents(int64_t milliseconds) const {
  if (watching_events_.exchange(true)) return;
  std::thread([this, milliseconds] {
    const std::chrono::milliseconds most(milliseconds);
    while (!lost_) {
      std::this_thread::sleep_for(most / 4 + std::chrono::milliseconds(1));
      if (host_->HasEventSince(std::chrono::steady_clock::now() - most)) {
        Lose("a result", milliseconds);
      }
    }
  }).detach();
}

template <class State, class F>
void PluginBackend::Call(const char* function, State& state, F call, const Graph* graph) const {
  ThrowIfLost();
  auto raise = [&](HammockStatus status, const ErrorText& error) {
    const bool has_node = graph && error.node() >= 0 && error.node() < graph->size();
    // A lack of memory keeps its class, by which memory is freed and the call made again.
    const bool names_node = has_node && status != HAMMOCK_OUT_OF_MEMORY;
    std::shared_ptr<Error> thrown =
        ErrorOf(status, error.text(), error.op(), names_node ? error.node() : -1);
    if (has_node && !names_node) {
      thrown->SetWhere(WhereText((*graph)[NodeId(error.node())].location));
    }
    if (error.text().empty()) thrown->AddNote(fmt::format("in `{}` of {}", function, table_.name));
    thrown->Raise();
  };
  const int64_t timeout = config::Get<kTimeout>();
  if (timeout <= 0) [[likely]] {
    ErrorText error;
    const HammockStatus status = call(table_, state, error.c());
    if (status != HAMMOCK_OK) [[unlikely]]
      raise(status, error);
    return;
  }
  struct Watched {
    Watched(State&& given, F call) : state(std::move(given)), call(std::move(call)) {}
    State state;
    F call;
    ErrorText error;
    HammockStatus status = HAMMOCK_OK;
    std::exception_ptr thrown;
  };
  auto watched = std::make_shared<Watched>(std::move(state), std::move(call));
  bool ended = watchdog_.Run(
      [this, watched] {
        try {
          watched->status = watched->call(table_, watched->state, watched->error.c());
        } catch (...) {
          watched->thrown = std::current_exception();
        }
      },
      std::chrono::milliseconds(timeout));
  if (!ended) {
    Lose(function, timeout);
    ThrowIfLost();
  }
  state = std::move(watched->state);
  if (watched->thrown) std::rethrow_exception(watched->thrown);
  if (watched->status != HAMMOCK_OK) raise(watched->status, watched->error);
}

template <class State, class F>
void PluginBackend::Tell(const char* function, State& state, F call) const noexcept {
  try {
    if (lost_) return;
    Call(function, state, [call](const HammockPlugin& table, State& given, HammockError*) {
      call(table, given);
      return HAMMOCK_OK;
    });
  } catch (const std::exception& error) {
    Log(LogLevel::kError, "{}: {}: {}", table_.name, function, error.what());
  } catch (...) {
    Log(LogLevel::kError, "{}: {}: an exception", table_.name, function);
  }
}

void PluginBackend::Release(HammockData data) const noexcept {
  Tell("release", data, [](const HammockPlugin& table, HammockData& given) {
    table.release(table.self, 1, &given);
  });
}

void PluginBackend::ReleaseExecutable(HammockExecutable executable) const noexcept {
  Tell("release_executable", executable, [](const HammockPlugin& table, HammockExecutable& given) {
    table.release_executable(table.self, given);
  });
}

// ---- Initialisation, devices

void PluginBackend::InitializeBindings() const {
  NoState none;
  if (!table_.initialize) return;
  Call("initialize", none, [](const HammockPlugin& table, NoState&, HammockError* error) {
    return table.initialize(table.self, error);
  });
}

void PluginBackend::PrepareToExit() const {
  NoState none;
  if (!table_.shutdown) return;
  Tell("shutdown", none, [](const HammockPlugin& table, NoState&) { table.shutdown(table.self); });
}

void PluginBackend::SetRngSeed(size_t seed) const {
  uint64_t given = seed;
  if (!table_.set_seed) return;
  Tell("set_seed", given,
       [](const HammockPlugin& table, uint64_t& value) { table.set_seed(table.self, value); });
}

void PluginBackend::SetDefaultDeviceType(int8_t type) {
  if (type == type_->type) return;
  Throw(ErrorCode::kUnknownDevice, "{}: device type {} is unknown, there is only {}", table_.name,
        type, type_->type);
}

void PluginBackend::SetDefaultDeviceOrdinal(int64_t ordinal) {
  default_ordinal_ = GetBackendDevice(ordinal).ordinal();
}

std::string PluginBackend::EagerFallbackDeviceType() const {
  return table_.fallback ? table_.fallback : BackendImplInterface::EagerFallbackDeviceType();
}

std::vector<BackendDevice> PluginBackend::GetBackendDevices() const {
  constexpr int64_t kMost = 1024;
  int64_t count = 0;
  Call("device_count", count, [](const HammockPlugin& table, int64_t& result, HammockError* error) {
    return table.device_count(table.self, &result, error);
  });
  if (count < 0 || count > kMost) {
    Throw<InternalError>(ErrorCode::kInternal, "device_count of {} gave {}", table_.name, count);
  }
  std::vector<BackendDevice> devices;
  for (int64_t i = 0; i < count; ++i) devices.emplace_back(type_, i);
  return devices;
}

lazy::MemoryInfo PluginBackend::GetMemoryInfo(const BackendDevice& device) const {
  HammockMemoryInfo info = {};
  info.struct_size = sizeof(info);
  Call("memory_info", info,
       [ordinal = device.ordinal()](const HammockPlugin& table, HammockMemoryInfo& result,
                                    HammockError* error) {
         return table.memory_info(table.self, ordinal, &result, error);
       });
  return {info.in_use, info.derived, info.reserved, info.peak, info.limit, info.total};
}

void PluginBackend::SetMemoryLimit(const BackendDevice& device, int64_t bytes) const {
  if (!table_.set_memory_limit) return BackendImplInterface::SetMemoryLimit(device, bytes);
  Call("set_memory_limit", bytes,
       [ordinal = device.ordinal()](const HammockPlugin& table, int64_t& given,
                                    HammockError* error) {
         return table.set_memory_limit(table.self, ordinal, given, error);
       });
}

void PluginBackend::FreeCachedMemory(const BackendDevice& device) const {
  int64_t ordinal = device.ordinal();
  if (!table_.free_cached_memory) return;
  Tell("free_cached_memory", ordinal, [](const HammockPlugin& table, int64_t& given) {
    table.free_cached_memory(table.self, given);
  });
}

void PluginBackend::WaitForDevice(const BackendDevice& device) const {
  int64_t ordinal = device.ordinal();
  if (!table_.wait) return ThrowIfLost();
  Call("wait", ordinal, [](const HammockPlugin& table, int64_t& given, HammockError* error) {
    return table.wait(table.self, given, error);
  });
}

void PluginBackend::Hurry(const BackendDevice& device) const {
  int64_t ordinal = device.ordinal();
  if (!table_.hurry) return;
  Tell("hurry", ordinal,
       [](const HammockPlugin& table, int64_t& given) { table.hurry(table.self, given); });
}

// ---- Data

std::vector<BackendDataPtr> PluginBackend::MakeComputationDataFromTensors(
    std::span<const HostTensor> tensors, const BackendDevice& device) const {
  struct State {
    std::vector<HostTensor> tensors;
    std::vector<HammockHostTensor> given;
    std::vector<HammockData> data;
    int64_t ordinal;
  };
  State state{{tensors.begin(), tensors.end()}, {}, {}, device.ordinal()};
  state.data.resize(tensors.size());
  for (const HostTensor& tensor : state.tensors) {
    state.given.push_back({ShapeOf(tensor.shape()),
                           {tensor.data(), static_cast<uint64_t>(tensor.bytes())},
                           host_->AddBuffer(tensor)});
  }
  struct Drop {
    PluginHost& host;
    std::vector<HammockBuffer> buffers;
    ~Drop() {
      for (HammockBuffer buffer : buffers) host.DropBuffer(buffer);
    }
  } drop{*host_, {}};
  for (const HammockHostTensor& given : state.given) drop.buffers.push_back(given.buffer);
  Call("upload", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    return table.upload(table.self, call.ordinal, call.given.size(), call.given.data(),
                        call.data.data(), error);
  });
  std::vector<BackendDataPtr> results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (state.data[i] == 0) {
      Throw<InternalError>(ErrorCode::kInternal, "upload of {} gave no data", table_.name);
    }
    results.push_back(PluginData::Make(*this, device, tensors[i].shape(), state.data[i]));
  }
  return results;
}

BackendDataPtr PluginBackend::MakeComputationDataFromTensor(const HostTensor& tensor,
                                                            const Shape& shape,
                                                            const BackendDevice& device) const {
  HostTensor host = tensor.dtype() == shape.dtype() ? tensor : tensor.To(shape.dtype());
  return MakeComputationDataFromTensors(std::span(&host, 1), device)[0];
}

BackendDataPtr PluginBackend::MakeComputationDataFromScalar(const Scalar& scalar,
                                                            const BackendDevice& device) const {
  HostTensor host = HostTensor::From(scalar);
  return MakeComputationDataFromTensors(std::span(&host, 1), device)[0];
}

BackendDataPtr PluginBackend::CreateDataPlaceholder(const BackendDevice& device,
                                                    const Shape& shape) const {
  return PluginData::Make(*this, device, shape);
}

std::vector<HostTensor> PluginBackend::MakeTensorsFromComputationData(
    std::span<const BackendDataPtr> data) const {
  struct State {
    std::vector<HammockData> data;
    std::vector<HostTensor> tensors;
    std::vector<void*> places;
  } state;
  for (const BackendDataPtr& each : data) {
    each->WaitReady();
    state.data.push_back(HandleOf(*this, each));
    state.tensors.emplace_back(each->shape());
    state.places.push_back(state.tensors.back().mutable_data());
  }
  Call("download", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    return table.download(table.self, call.data.size(), call.data.data(), call.places.data(),
                          error);
  });
  return std::move(state.tensors);
}

HostTensor PluginBackend::MakeTensorFromComputationData(const BackendDataPtr data,
                                                        std::optional<DType> type) const {
  HostTensor host = MakeTensorsFromComputationData(std::span(&data, 1))[0];
  return type && *type != host.dtype() ? host.To(*type) : host;
}

BackendDataPtr PluginBackend::CopyToDevice(const BackendDataPtr& data,
                                           const BackendDevice& device) const {
  if (!table_.copy) return nullptr;
  struct State {
    HammockData data;
    HammockData copy = 0;
    int64_t ordinal;
    bool supported = true;
  } state;
  state.data = HandleOf(*this, data);
  state.ordinal = device.ordinal();
  Call("copy", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    HammockStatus status = table.copy(table.self, call.data, call.ordinal, &call.copy, error);
    call.supported = status != HAMMOCK_NOT_SUPPORTED;
    return call.supported ? status : HAMMOCK_OK;
  });
  if (!state.supported) return nullptr;
  if (state.copy == 0) {
    Throw<InternalError>(ErrorCode::kInternal, "copy of {} gave no data", table_.name);
  }
  return PluginData::Make(*this, device, data->shape(), state.copy);
}

// ---- Compilation

namespace {

/// What HammockCompilation points to.
struct Compilation {
  Compilation(const lazy::Computation& computation, std::string bytes)
      : graph(computation.graph()),
        name(computation.name()),
        derived(computation.derived_sizes),
        artifact(std::move(bytes)),
        ordinal(computation.device().ordinal()),
        in_mark_step(computation.in_mark_step) {
    for (auto [result, parameter] : computation.aliases) aliases.push_back({result, parameter});
    compiled.struct_size = sizeof(compiled);
  }

  template <class F>
  HammockStatus With(F&& call) {
    std::vector<std::vector<int32_t>> factors;
    std::vector<HammockDerivedSize> sizes;
    for (const lazy::DerivedSize& size : derived) {
      const auto& list = factors.emplace_back(size.factors.begin(), size.factors.end());
      sizes.push_back({size.coefficient, list.size(), list.data(), size.offset, size.divisor});
    }
    const HammockCompilation request = {sizeof(HammockCompilation),
                                        in_mark_step,
                                        ordinal,
                                        name.c_str(),
                                        graph.get(),
                                        aliases.size(),
                                        aliases.data(),
                                        sizes.size(),
                                        sizes.data()};
    return call(request);
  }

  GraphBytes graph;
  std::string name;
  std::vector<HammockAlias> aliases;
  std::vector<lazy::DerivedSize> derived;
  std::string artifact;
  int64_t ordinal;
  bool in_mark_step;
  HammockCompiled compiled = {};
};

}  // namespace

void PluginBackend::Adopt(lazy::Computation& computation, const HammockCompiled& compiled,
                          const char* function) const {
  if (compiled.executable == 0) {
    Throw<InternalError>(ErrorCode::kInternal, "{} of {} gave no executable", function,
                         table_.name);
  }
  computation.artifact = std::make_shared<Executable>(*this, compiled.executable);
  computation.artifact_bytes = std::max<int64_t>(compiled.code_bytes, 0);
  computation.run_bytes = std::max<int64_t>(compiled.run_bytes, 0);
}

ComputationPtr PluginBackend::CompileBy(const char* function, const ComputationPtr& computation,
                                        std::string artifact) const {
  Compilation state(*computation, std::move(artifact));
  Call(function, state, [](const HammockPlugin& table, Compilation& call, HammockError* error) {
    return call.With([&](const HammockCompilation& request) {
      if (call.artifact.empty()) {
        return table.compile(table.self, &request, &call.compiled, error);
      }
      const HammockBytes bytes = {call.artifact.data(), call.artifact.size()};
      return table.deserialize(table.self, &request, bytes, &call.compiled, error);
    });
  });
  Adopt(*computation, state.compiled, function);
  return computation;
}

std::vector<ComputationPtr> PluginBackend::Compile(std::vector<ComputationPtr> instances) const {
  for (const ComputationPtr& instance : instances) CompileBy("compile", instance, "");
  return instances;
}

bool PluginBackend::SupportsDimParams(const BackendDevice&) const {
  return Has(HAMMOCK_DIM_PARAMS) && table_.instantiate;
}

ComputationPtr PluginBackend::Instantiate(const ComputationPtr& general,
                                          std::span<const int64_t> sizes) const {
  struct State {
    HammockExecutable executable;
    std::vector<int64_t> sizes;
    HammockCompiled compiled = {};
  } state{ExecutableOf(general), {sizes.begin(), sizes.end()}};
  state.compiled.struct_size = sizeof(state.compiled);
  Call("instantiate", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    return table.instantiate(table.self, call.executable, call.sizes.size(), call.sizes.data(),
                             &call.compiled, error);
  });
  auto instance = std::make_shared<lazy::Computation>(*general, sizes);
  Adopt(*instance, state.compiled, "instantiate");
  return instance;
}

// ---- Execution

std::vector<BackendDataPtr> PluginBackend::ExecuteComputation(
    ComputationPtr computation, std::span<const BackendDataPtr> arguments,
    const BackendDevice& device, const lazy::RunContext& run) const {
  struct State {
    State(size_t arguments, size_t results) : data(arguments), donated(arguments), made(results) {}
    ShortList<HammockData> data;
    ShortList<uint8_t> donated;
    ShortList<HammockResult> made;
    ComputationPtr computation;  // and its executable
    std::shared_ptr<const HammockRun> run;
    HammockExecution call = {};
  };
  const auto results_size = static_cast<size_t>(computation->results_size());
  State state(arguments.size(), results_size);
  bool any_donated = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    state.data[i] = HandleOf(*this, arguments[i]);
    const bool donated = i < run.donated.size() && run.donated[i];
    state.donated[i] = donated;
    any_donated |= donated;
  }
  if (run.profile) state.run = host_->AddRun(*run.profile);
  const Graph& graph = computation->graph();
  const bool asynchronous = IsAsynchronous();
  std::vector<BackendDataPtr> results;
  results.reserve(results_size);
  for (size_t i = 0; i < results_size; ++i) {
    results.push_back(PluginData::Make(*this, device, computation->result_shapes()[i]));
    if (!asynchronous) continue;
    results[i]->MakePending();
    state.made[i].ready = host_->AddEvent(results[i], graph.size(), state.run);
  }
  state.call = {.struct_size = sizeof(HammockExecution),
                .location = run.location,
                .device = device.ordinal(),
                .executable = ExecutableOf(computation),
                .argument_count = arguments.size(),
                .arguments = nullptr,
                .donated = nullptr,
                .result_count = results_size,
                .results = nullptr,
                .run = state.run ? *state.run : 0};
  // Handles are known here also where a call is given up and keeps the state.
  ShortList<HammockEvent> events(asynchronous ? results_size : 0);
  for (size_t i = 0; i < events.size(); ++i) events[i] = state.made[i].ready;
  try {
    if (config::Get<kTimeout>() > 0) {
      state.computation = computation;
      if (asynchronous) WatchEvents(config::Get<kTimeout>());
    }
    Call(
        "execute", state,
        [any_donated](const HammockPlugin& table, State& given, HammockError* error) {
          given.call.arguments = given.data.data();
          given.call.donated = any_donated ? given.donated.data() : nullptr;
          given.call.results = given.made.data();
          return table.execute(table.self, &given.call, error);
        },
        &graph);
    for (size_t i = 0; i < results_size; ++i) {
      if (state.made[i].data == 0) {
        Throw<InternalError>(ErrorCode::kInternal, "execute of {} gave no data for result {}",
                             table_.name, i);
      }
      static_cast<PluginData&>(*results[i]).SetCell(NewCell(*this, state.made[i].data));
    }
  } catch (...) {
    for (size_t i = 0; i < events.size(); ++i) host_->TakeEvent(events[i]);
    throw;
  }
  for (size_t i = 0; i < events.size(); ++i) {
    if (state.made[i].pending) continue;
    if (BackendDataPtr ready = host_->TakeEvent(events[i])) ready->SetReady();
  }
  if (any_donated && !Has(HAMMOCK_KEEPS_DONATED)) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (state.donated[i]) static_cast<PluginData&>(*arguments[i]).SetCell(nullptr);
    }
  }
  return results;
}

// ---- Capabilities

namespace {

/// Answers about a graph, with all that an answer may depend on, so that it serves any graph that
/// has the same node.
struct Answers {
  struct Node {
    const OpDef* op;
    std::vector<Attr> attrs;
    std::vector<Shape> types, inputs;
  };

  bool Fits(const PluginBackend* backend, int64_t device) const {
    return plugin == backend && ordinal == device && generation == config::Generation();
  }
  /// Whether the node with this id is the same.
  bool Has(const Graph& graph, NodeId id) const {
    const auto index = static_cast<size_t>(id.number());
    if (index >= nodes.size()) return false;
    const GraphNode& node = graph[id];
    const Node& known = nodes[index];
    if (known.op != node.op || known.inputs.size() != node.inputs.size()) return false;
    if (known.types != node.types || known.attrs != node.attrs) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (known.inputs[i] != TypeOf(graph, node.inputs[i])) return false;
    }
    return true;
  }
  void Remember(const Graph& graph) {
    nodes.clear();
    for (const GraphNode& node : graph.nodes()) {
      std::vector<Shape> inputs;
      for (GraphValue input : node.inputs) inputs.push_back(TypeOf(graph, input));
      nodes.push_back({node.op, node.attrs, node.types, std::move(inputs)});
    }
  }
  static Shape TypeOf(const Graph& graph, GraphValue value) {
    return value.node ? graph.TypeOf(value) : Shape();
  }

  const PluginBackend* plugin = nullptr;
  int64_t ordinal = 0;
  uint64_t generation = 0;
  std::vector<Node> nodes;
  std::vector<Capability> verdicts;
};

HammockStatus Answer(void* context, int32_t node, uint32_t verdict, const char* reason) noexcept {
  auto& verdicts = *static_cast<std::vector<Capability>*>(context);
  if (node < 0 || static_cast<size_t>(node) >= verdicts.size() || verdict > HAMMOCK_REFUSE) {
    return HAMMOCK_VALUE_ERROR;
  }
  constexpr Capability::Verdict kVerdicts[] = {
      Capability::Verdict::kRun, Capability::Verdict::kExpand, Capability::Verdict::kRefuse};
  try {
    verdicts[static_cast<size_t>(node)] = {kVerdicts[verdict], reason ? reason : ""};
    return HAMMOCK_OK;
  } catch (...) {
    return HAMMOCK_OUT_OF_MEMORY;
  }
}

}  // namespace

Capability PluginBackend::QueryCapability(const Graph& graph, NodeId node,
                                          const BackendDevice& device) const {
  if (!table_.capabilities) {
    return BackendImplInterface::QueryCapability(graph, node, device);
  }
  // The runtime asks for one node after another of the same graph.
  static thread_local Answers answers;
  const auto index = static_cast<size_t>(node.number());
  if (answers.Fits(this, device.ordinal()) && answers.Has(graph, node)) {
    return answers.verdicts[index];
  }
  struct State {
    GraphBytes graph;
    std::vector<Capability> verdicts;
    int64_t ordinal;
  } state{GraphBytes(graph), {}, device.ordinal()};
  for (NodeId id : graph.ids()) {
    state.verdicts.push_back(BackendImplInterface::QueryCapability(graph, id, device));
  }
  const uint64_t generation = config::Generation();
  answers.plugin = nullptr;
  Call("capabilities", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    return table.capabilities(table.self, call.ordinal, call.graph.get(), {&call.verdicts, Answer},
                              error);
  });
  answers.Remember(graph);
  answers.verdicts = std::move(state.verdicts);
  answers.ordinal = device.ordinal();
  answers.generation = generation;
  answers.plugin = this;
  return answers.verdicts[index];
}

// ---- Saved computations

std::string PluginBackend::Fingerprint(const BackendDevice& device) const {
  struct State {
    std::string text;
    int64_t ordinal;
  } state{fmt::format("plug-in {} {}: ", table_.name, table_.version ? table_.version : ""),
          device.ordinal()};
  if (!table_.fingerprint) return state.text;
  Call("fingerprint", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    return table.fingerprint(table.self, call.ordinal, ErrorText::Into(call.text), error);
  });
  return state.text;
}

std::string PluginBackend::SerializeComputation(const ComputationPtr& computation) const {
  struct State {
    HammockExecutable executable;
    std::string bytes;
  } state{ExecutableOf(computation), {}};
  if (!table_.fingerprint) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "{} saves no computations", table_.name);
  }
  lazy::SavedComputation saved(*computation, Fingerprint(computation->device()));
  if (table_.serialize && table_.deserialize) {
    Call("serialize", state, [](const HammockPlugin& table, State& call, HammockError* error) {
      return table.serialize(table.self, call.executable, ErrorText::Into(call.bytes), error);
    });
    saved.artifact = std::move(state.bytes);
  }
  return saved.ToBytes();
}

ComputationPtr PluginBackend::DeserializeComputation(std::string_view bytes,
                                                     const BackendDevice& device) const {
  lazy::SavedComputation saved = lazy::SavedComputation::Parse(bytes);
  ComputationPtr computation = saved.ToComputation(device);
  const bool loads = table_.deserialize && !saved.artifact.empty();
  return CompileBy(loads ? "deserialize" : "compile", computation,
                   loads ? std::move(saved.artifact) : "");
}

// ---- For people

namespace {

struct Text {
  HammockExecutable executable = 0;
  std::string text;
};

}  // namespace

std::string PluginBackend::GetComputationBackendText(const ComputationPtr computation) const {
  if (!table_.executable_text) return BackendImplInterface::GetComputationBackendText(computation);
  Text state{ExecutableOf(computation), ""};
  Tell("executable_text", state, [](const HammockPlugin& table, Text& call) {
    table.executable_text(table.self, call.executable, ErrorText::Into(call.text));
  });
  return state.text;
}

std::string PluginBackend::CreateMetricReport() const {
  Text state;
  if (!table_.report) return "";
  Tell("report", state, [](const HammockPlugin& table, Text& call) {
    table.report(table.self, ErrorText::Into(call.text));
  });
  return state.text;
}

std::map<std::string, double> PluginBackend::GetMetrics() const {
  using Numbers = std::map<std::string, double>;
  Numbers numbers;
  if (!table_.numbers) return numbers;
  auto add = [](void* context, const char* name, double value) {
    if (name) (*static_cast<Numbers*>(context))[name] = value;
  };
  Tell("numbers", numbers, [add](const HammockPlugin& table, Numbers& call) {
    table.numbers(table.self, {&call, add});
  });
  return numbers;
}

std::vector<lazy::DeviceFact> PluginBackend::DescribeDevice(const BackendDevice& device) const {
  using Facts = std::vector<lazy::DeviceFact>;
  Facts facts = {{"plug-in",
                  fmt::format("{} {}, interface {}.{}", path_, table_.version ? table_.version : "",
                              table_.version_major, table_.version_minor),
                  false}};
  if (!table_.describe_device) return facts;
  auto add = [](void* context, const char* name, const char* text, uint32_t missing) {
    static_cast<Facts*>(context)->push_back({name ? name : "", text ? text : "", missing != 0});
  };
  Tell("describe_device", facts,
       [add, ordinal = device.ordinal()](const HammockPlugin& table, Facts& call) {
         table.describe_device(table.self, ordinal, {&call, add});
       });
  return facts;
}

lazy::ComputationInfo PluginBackend::DescribeComputation(const ComputationPtr& computation) const {
  struct State {
    HammockExecutable executable;
    lazy::ComputationInfo info;
  } state{ExecutableOf(computation), {computation->graph(), {}, 0}};
  if (!table_.describe_executable) return std::move(state.info);
  auto kernel = [](void* context, const HammockKernel* given) {
    auto& info = *static_cast<lazy::ComputationInfo*>(context);
    if (!given || given->struct_size < sizeof(HammockKernel)) return;
    lazy::KernelInfo made{given->name ? given->name : "",
                          given->kind ? given->kind : "kernel",
                          {},
                          given->text ? given->text : "",
                          given->bytes,
                          given->flops};
    for (uint32_t i = 0; given->nodes && i < given->node_count; ++i) {
      const NodeId node(given->nodes[i]);
      if (info.graph.Contains(node)) made.nodes.push_back(node);
    }
    info.kernels.push_back(std::move(made));
  };
  auto peak = [](void* context, int64_t bytes) {
    static_cast<lazy::ComputationInfo*>(context)->peak_bytes = bytes;
  };
  auto graph = [](void* context, const char* text, uint64_t size) -> HammockStatus {
    try {
      static_cast<lazy::ComputationInfo*>(context)->graph = ParseGraph({text, size});
      return HAMMOCK_OK;
    } catch (...) {
      return WriteCurrentError(nullptr);
    }
  };
  Tell("describe_executable", state, [=](const HammockPlugin& table, State& call) {
    table.describe_executable(table.self, call.executable, {&call.info, kernel, peak, graph});
  });
  return std::move(state.info);
}

}  // namespace hammock::plugins
