#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "backends/common/collectives.h"
#include "base/inline_list.h"
#include "base/load_libraries.h"
#include "base/throw.h"
#include "hammock/distributed.h"
#include "hammock/lazy/plugin_adaptor.h"
#include "plugins/exchange_adaptor.h"
#include "plugins/graph_bytes.h"
#include "plugins/handle_table.h"
#include "plugins/outside_collectives.h"
#include "plugins/plugin_host.h"
#include "plugins/status.h"
#include "runtime/diagnose/forwarded_profile.h"

namespace hammock::plugins {
namespace {

using lazy::BackendDevice;
using lazy::BackendImplInterface;
using lazy::Capability;
using lazy::ComputationPtr;

class Adaptor {
 public:
  Adaptor(const char* name, const char* version, BackendImplInterface* backend,
          const HammockHost* host)
      : name_(name),
        version_(version),
        fallback_(backend->EagerFallbackDeviceType()),
        backend_(*backend),
        host_(*host),
        exchange_(*backend, *host),
        devices_(backend->GetBackendDevices()),
        outside_(!PluginHost::IsOurs(*host)) {
    FillTable();
    OfferMemory();
  }
  const HammockPlugin* table() const { return &table_; }

 private:
  static Adaptor& Of(void* self) { return *static_cast<Adaptor*>(self); }

  /// Runs `call(adaptor)`; what it throws becomes a status.
  template <class F>
  static HammockStatus Try(void* self, HammockError* error, F&& call) noexcept {
    try {
      call(Of(self));
      return HAMMOCK_OK;
    } catch (...) {
      return WriteCurrentError(error);
    }
  }
  /// Likewise for functions without a status: the host's log has the error.
  template <class F>
  static void TryVoid(void* self, F&& call) noexcept {
    try {
      call(Of(self));
    } catch (...) {
      ErrorText error;
      WriteCurrentError(error.c());
      const HammockHost& host = Of(self).host_;
      host.log(host.context, HAMMOCK_LOG_ERROR, error.text().c_str());
    }
  }

  const BackendDevice& DeviceOf(int64_t ordinal) const {
    if (ordinal < 0 || ordinal >= static_cast<int64_t>(devices_.size())) {
      Throw(ErrorCode::kBadOrdinal, "there is no device {}", ordinal);
    }
    return devices_[static_cast<size_t>(ordinal)];
  }
  /// `list` gets the data of all handles.
  template <class List>
  void FindData(const HammockData* handles, uint64_t count, List& list) {
    const size_t found =
        data_.WithEach(handles, count, [&](const BackendDataPtr& data) { list.push_back(data); });
    if (found == count) [[likely]]
      return;
    Throw<InternalError>(ErrorCode::kInternal, "stale handle {:#x} of data", handles[found]);
  }
  BackendDataPtr DataOf(HammockData handle) {
    if (BackendDataPtr found = data_.Copy(handle)) [[likely]]
      return found;
    Throw<InternalError>(ErrorCode::kInternal, "stale handle {:#x} of data", handle);
  }
  ComputationPtr ComputationOf(HammockExecutable handle) {
    if (ComputationPtr found = executables_.Copy(handle)) [[likely]]
      return found;
    Throw<InternalError>(ErrorCode::kInternal, "stale handle {:#x} of an executable", handle);
  }

  // ---- Data

  HostTensor Share(const HammockHostTensor& given) const {
    const Shape shape(static_cast<DType>(given.shape.dtype),
                      Dims(std::span(given.shape.sizes, given.shape.rank)));
    const HammockBuffer buffer = given.buffer;
    if (host_.buffer_retain(host_.context, buffer) != HAMMOCK_OK) {
      return HostTensor::Copy(shape, given.bytes.bytes);
    }
    return HostTensor::Borrow(shape, const_cast<void*>(given.bytes.bytes),
                              [this, buffer] { host_.buffer_release(host_.context, buffer); });
  }

  static HammockStatus Upload(void* self, int64_t device, uint64_t count,
                              const HammockHostTensor* tensors, HammockData* data,
                              HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      std::vector<HostTensor> shared;
      for (uint64_t i = 0; i < count; ++i) shared.push_back(adaptor.Share(tensors[i]));
      auto made = adaptor.backend_.MakeComputationDataFromTensors(shared, adaptor.DeviceOf(device));
      if (made.size() != count || std::ranges::count(made, nullptr) > 0) {
        Throw<InternalError>(ErrorCode::kInternal, "MakeComputationDataFromTensors gave too few");
      }
      for (uint64_t i = 0; i < count; ++i) data[i] = adaptor.data_.Add(std::move(made[i]));
    });
  }

  static HammockStatus Download(void* self, uint64_t count, const HammockData* data,
                                void* const* places, HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      std::vector<BackendDataPtr> asked;
      adaptor.FindData(data, count, asked);
      std::vector<HostTensor> tensors;
      if (count == 1) {
        tensors.push_back(
            adaptor.backend_.MakeTensorFromComputationData(asked[0], asked[0]->shape().dtype()));
      } else {
        tensors = adaptor.backend_.MakeTensorsFromComputationData(asked);
      }
      for (uint64_t i = 0; i < count; ++i) {
        std::memcpy(places[i], tensors.at(i).data(), static_cast<size_t>(tensors[i].bytes()));
      }
    });
  }

  static void Release(void* self, uint64_t count, const HammockData* data) noexcept {
    TryVoid(self, [&](Adaptor& adaptor) {
      for (uint64_t i = 0; i < count; ++i) {
        adaptor.data_.TakeIf(data[i], [](const BackendDataPtr&) { return true; });
      }
    });
  }

  static HammockStatus Copy(void* self, HammockData data, int64_t to, HammockData* copy,
                            HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      BackendDataPtr made =
          adaptor.backend_.CopyToDevice(adaptor.DataOf(data), adaptor.DeviceOf(to));
      if (!made) Throw<NotSupported>(ErrorCode::kNotSupported, "no direct copy");
      *copy = adaptor.data_.Add(std::move(made));
    });
  }

  // ---- Compilation

  static HammockStatus Capabilities(void* self, int64_t device, HammockBytes bytes,
                                    HammockAnswers answers, HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      const NewerGraph given = ReadNewerGraph(bytes);
      for (NodeId id : given.graph.ids()) {
        const Capability answer = adaptor.AnswerAbout(given, id, adaptor.DeviceOf(device));
        answers.answer(answers.context, id.number(), static_cast<uint32_t>(answer.verdict),
                       answer.reason.c_str());
      }
    });
  }

  /// Nodes that only a newer library knows are left to the host.
  Capability AnswerAbout(const NewerGraph& given, NodeId id, const BackendDevice& device) const {
    const auto unread = given.unread.find(id);
    if (unread != given.unread.end()) {
      const auto& [why, composite] = unread->second;
      return {composite ? Capability::Verdict::kExpand : Capability::Verdict::kRefuse, why};
    }
    const OpDef& op = *given.graph[id].op;
    if (outside_ && IsCollective(op) && !CrossesWhole(op)) {
      return {Capability::Verdict::kExpand, ""};
    }
    return backend_.QueryCapability(given.graph, id, device);
  }

  ComputationPtr NewComputation(const HammockCompilation& request) const {
    auto computation = std::make_shared<lazy::Computation>(request.name, ReadGraph(request.graph),
                                                           DeviceOf(request.device));
    for (uint64_t i = 0; i < request.alias_count; ++i) {
      computation->aliases.emplace_back(request.aliases[i].result, request.aliases[i].parameter);
    }
    for (uint64_t i = 0; i < request.derived_size_count; ++i) {
      const HammockDerivedSize& size = request.derived_sizes[i];
      computation->derived_sizes.push_back({size.coefficient,
                                            {size.factors, size.factors + size.factor_count},
                                            size.offset,
                                            size.divisor});
    }
    computation->in_mark_step = request.in_mark_step != 0;
    computation->devices = backend_.GetCompilationDevices(computation->device().toString(), {});
    return computation;
  }

  void Give(ComputationPtr computation, HammockCompiled& compiled) {
    if (!computation) Throw<InternalError>(ErrorCode::kInternal, "Compile returned null");
    compiled.code_bytes = computation->bytes();
    compiled.run_bytes = computation->run_bytes;
    compiled.executable = executables_.Add(std::move(computation));
  }

  static HammockStatus Compile(void* self, const HammockCompilation* request,
                               HammockCompiled* compiled, HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      try {
        adaptor.Give(adaptor.backend_.Compile({adaptor.NewComputation(*request)}).at(0), *compiled);
      } catch (const Error&) {
        throw;
      } catch (const std::exception& thrown) {  // as the runtime takes it of a backend
        Throw<CompileError>(ErrorCode::kCompile, "{}", thrown.what());
      }
    });
  }

  static HammockStatus Instantiate(void* self, HammockExecutable executable, uint64_t count,
                                   const int64_t* sizes, HammockCompiled* compiled,
                                   HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      adaptor.Give(
          adaptor.backend_.Instantiate(adaptor.ComputationOf(executable), std::span(sizes, count)),
          *compiled);
    });
  }

  static void ReleaseExecutable(void* self, HammockExecutable executable) noexcept {
    TryVoid(self, [&](Adaptor& adaptor) { adaptor.executables_.Take(executable); });
  }

  // ---- Execution

  static HammockStatus Execute(void* self, const HammockExecution* call,
                               HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      try {
        adaptor.Run(*call);
      } catch (const distributed::DistributedError&) {  // of a collective that did not go through
                                                        // the host
        if (!adaptor.outside_) PluginHost::KeepCollectiveError();
        throw;
      }
    });
  }

  /// Kernels of a run go to the program's profile.
  [[gnu::cold]] std::shared_ptr<const ForwardedProfile> ProfileOf(HammockRun run) const {
    return std::make_shared<const ForwardedProfile>(ForwardedProfile::Receiver{
        [this, run](size_t kernel, std::string_view name, int64_t begin, int64_t end) {
          host_.run_kernel(host_.context, run, kernel, std::string(name).c_str(), begin, end);
        },
        [this, run](int64_t in_use) { host_.run_memory(host_.context, run, in_use); }});
  }

  void Run(const HammockExecution& call) {
    InlineList<BackendDataPtr, 8> arguments;
    FindData(call.arguments, call.argument_count, arguments);
    lazy::RunContext run;
    run.location = call.location;
    std::shared_ptr<const ForwardedProfile> profile;
    if (call.run != 0) [[unlikely]] {
      profile = ProfileOf(call.run);
      run.profile = profile->get();
    }
    run.collectives = CollectiveScope::Current();  // of a plug-in that lies in the program itself
    static_assert(sizeof(std::atomic<bool>) == sizeof(uint8_t));
    if (HAMMOCK_HAS(&call, cancel)) {
      run.cancel = reinterpret_cast<const std::atomic<bool>*>(call.cancel);
    }
    if (call.donated) run.donated.assign(call.donated, call.donated + call.argument_count);
    std::vector<BackendDataPtr> results = backend_.ExecuteComputation(
        ComputationOf(call.executable), std::span(arguments.begin(), arguments.size()),
        DeviceOf(call.device), run);
    if (results.size() != call.result_count || std::ranges::count(results, nullptr) > 0) {
      Throw<InternalError>(ErrorCode::kInternal, "ExecuteComputation returned {} values of {}",
                           results.size(), call.result_count);
    }
    // A call that fails gives no handles.
    for (uint64_t i = 0; i < call.result_count; ++i) {
      if (call.results[i].ready != 0) continue;
      if (!results[i]->IsReady()) results[i]->Wait();
      if (auto failed = results[i]->error()) [[unlikely]]
        failed->Raise();
    }
    for (uint64_t i = 0; i < call.result_count; ++i) {
      Give(std::move(results[i]), call.results[i], profile);
    }
  }

  /// The profile of the run ends when its results are ready.
  void Give(BackendDataPtr data, HammockResult& made,
            const std::shared_ptr<const ForwardedProfile>& profile) {
    lazy::BackendData* result = data.get();
    made.data = data_.Add(std::move(data));
    made.pending = !result->IsReady();
    if (made.ready == 0) return;
    if (made.pending) {
      result->OnReady(
          [this, result, profile, event = made.ready] { SetEvent(event, result->error()); });
    } else if (auto failed = result->error()) {
      made.pending = 1;
      SetEvent(made.ready, failed);
    }
  }

  void SetEvent(HammockEvent event, const std::shared_ptr<const Error>& error) const {
    if (!error) {
      host_.event_set(host_.context, event, HAMMOCK_OK, -1, nullptr, nullptr);
      return;
    }
    ErrorText text;
    const HammockStatus status = WriteError(*error, text.c());
    host_.event_set(host_.context, event, status, text.node(), nullptr, text.text().c_str());
  }

  // ---- Memory for others

  static HammockStatus Borrow(void* self, int64_t device, uint64_t memory,
                              const HammockShape* shape, HammockBuffer buffer, HammockData* data,
                              HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      *data = adaptor.data_.Add(
          adaptor.exchange_.Borrow(adaptor.DeviceOf(device), memory, *shape, buffer));
    });
  }

  /// The handle of sole data stays, without the data, until it is released.
  static HammockStatus Lend(void* self, HammockData handle, uint32_t sole, HammockLent* lent,
                            HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      BackendDataPtr data = adaptor.DataOf(handle);
      if (sole) adaptor.data_.With(handle, [](BackendDataPtr& held) { held.reset(); });
      *lent = adaptor.exchange_.Lend(std::move(data));
    });
  }

  void OfferMemory() {
    if (const lazy::DeviceExchange* exchange = exchange_.exchange()) {
      table_.exchange_alignment = static_cast<uint64_t>(exchange->alignment());
      table_.come_after = [](void* self, int64_t device, uint64_t stream,
                             HammockError* error) noexcept {
        return Try(self, error, [&](Adaptor& adaptor) {
          adaptor.exchange_.exchange()->ComeAfter(adaptor.DeviceOf(device), stream);
        });
      };
      table_.let_come_after = [](void* self, int64_t device, uint64_t stream,
                                 HammockError* error) noexcept {
        return Try(self, error, [&](Adaptor& adaptor) {
          adaptor.exchange_.exchange()->LetComeAfter(adaptor.DeviceOf(device), stream);
        });
      };
      table_.borrow = Borrow;
      table_.lend = Lend;
    }
    if (exchange_.shares()) {
      table_.share = [](void* self, HammockData data, HammockLent* lent,
                        HammockError* error) noexcept {
        return Try(self, error, [&](Adaptor& adaptor) {
          *lent = adaptor.exchange_.Share(adaptor.DataOf(data));
        });
      };
    }
    table_.take_back = [](void* self, HammockLoan loan, const uint64_t* stream,
                          HammockError* error) noexcept {
      return Try(self, error, [&](Adaptor& adaptor) { adaptor.exchange_.TakeBack(loan, stream); });
    };
  }

  // ---- The rest

  static HammockStatus Fingerprint(void* self, int64_t device, HammockWriter text,
                                   HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      const std::string made = adaptor.backend_.Fingerprint(adaptor.DeviceOf(device));
      text.write(text.context, made.data(), made.size());
    });
  }
  static HammockStatus Serialize(void* self, HammockExecutable executable, HammockWriter bytes,
                                 HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      const std::string made =
          adaptor.backend_.SerializeComputation(adaptor.ComputationOf(executable));
      bytes.write(bytes.context, made.data(), made.size());
    });
  }
  static HammockStatus Deserialize(void* self, const HammockCompilation* request,
                                   HammockBytes bytes, HammockCompiled* compiled,
                                   HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      adaptor.Give(adaptor.backend_.DeserializeComputation(
                       {static_cast<const char*>(bytes.bytes), bytes.size},
                       adaptor.DeviceOf(request->device)),
                   *compiled);
    });
  }

  static void ExecutableText(void* self, HammockExecutable executable,
                             HammockWriter text) noexcept {
    TryVoid(self, [&](Adaptor& adaptor) {
      hammock_write(
          text,
          adaptor.backend_.GetComputationBackendText(adaptor.ComputationOf(executable)).c_str());
    });
  }

  static void DescribeExecutable(void* self, HammockExecutable executable,
                                 HammockDescription description) noexcept {
    TryVoid(self, [&](Adaptor& adaptor) {
      ComputationPtr computation = adaptor.ComputationOf(executable);
      const lazy::ComputationInfo info = adaptor.backend_.DescribeComputation(computation);
      if (!(info.graph == computation->graph())) {
        const std::string text = ToText(info.graph, {.locations = true});
        description.graph(description.context, text.data(), text.size());
      }
      description.peak_bytes(description.context, info.peak_bytes);
      for (const lazy::KernelInfo& kernel : info.kernels) {
        std::vector<int32_t> nodes;
        for (NodeId node : kernel.nodes) nodes.push_back(node.number());
        const HammockKernel made = {sizeof(HammockKernel), static_cast<uint32_t>(nodes.size()),
                                    nodes.data(),          kernel.name.c_str(),
                                    kernel.kind.c_str(),   kernel.text.c_str(),
                                    kernel.bytes,          kernel.flops};
        description.kernel(description.context, &made);
      }
    });
  }

  static HammockStatus MemoryInfo(void* self, int64_t device, HammockMemoryInfo* info,
                                  HammockError* error) noexcept {
    return Try(self, error, [&](Adaptor& adaptor) {
      const lazy::MemoryInfo made = adaptor.backend_.GetMemoryInfo(adaptor.DeviceOf(device));
      info->in_use = made.in_use;
      info->derived = made.derived;
      info->reserved = made.reserved;
      info->peak = made.peak;
      info->limit = made.limit;
      info->total = made.total;
    });
  }

  void FillTable() {
    auto has = [](bool holds, uint32_t property) { return holds ? property : 0u; };
    const bool any = !devices_.empty();
    table_.struct_size = sizeof(table_);
    table_.version_major = HAMMOCK_PLUGIN_MAJOR;
    table_.version_minor = HAMMOCK_PLUGIN_MINOR;
    table_.properties =
        has(backend_.IsAsynchronous(), HAMMOCK_ASYNCHRONOUS) |
        has(backend_.SupportsConcurrentExecution(), HAMMOCK_CONCURRENT) |
        has(backend_.KeepsDonatedOnFailure(), HAMMOCK_KEEPS_DONATED) |
        has(any && backend_.SupportsDimParams(devices_[0]), HAMMOCK_DIM_PARAMS) |
        has(any && backend_.WantsOptimisedGraphs(devices_[0]), HAMMOCK_OPTIMISED_GRAPHS);
    table_.name = name_.c_str();
    table_.version = version_.c_str();
    table_.fallback = fallback_.c_str();
    table_.self = this;
    table_.initialize = [](void* self, HammockError* error) noexcept {
      return Try(self, error, [](Adaptor& adaptor) { adaptor.backend_.InitializeBindings(); });
    };
    table_.shutdown = [](void* self) noexcept {
      TryVoid(self, [](Adaptor& adaptor) { adaptor.backend_.PrepareToExit(); });
    };
    table_.device_count = [](void* self, int64_t* count, HammockError*) noexcept {
      *count = static_cast<int64_t>(Of(self).devices_.size());
      return HammockStatus{HAMMOCK_OK};
    };
    table_.memory_info = MemoryInfo;
    table_.set_memory_limit = [](void* self, int64_t device, int64_t bytes,
                                 HammockError* error) noexcept {
      return Try(self, error, [&](Adaptor& adaptor) {
        adaptor.backend_.SetMemoryLimit(adaptor.DeviceOf(device), bytes);
      });
    };
    table_.free_cached_memory = [](void* self, int64_t device) noexcept {
      TryVoid(self, [&](Adaptor& adaptor) {
        lazy::DropDerivedData(adaptor.DeviceOf(device));
        adaptor.backend_.FreeCachedMemory(adaptor.DeviceOf(device));
      });
    };
    table_.describe_device = [](void* self, int64_t device, HammockFacts facts) noexcept {
      TryVoid(self, [&](Adaptor& adaptor) {
        for (const auto& fact : adaptor.backend_.DescribeDevice(adaptor.DeviceOf(device))) {
          facts.add(facts.context, fact.name.c_str(), fact.text.c_str(), fact.missing);
        }
      });
    };
    table_.upload = Upload;
    table_.download = Download;
    table_.release = Release;
    table_.copy = Copy;
    table_.capabilities = Capabilities;
    table_.compile = Compile;
    table_.instantiate = Instantiate;
    table_.release_executable = ReleaseExecutable;
    table_.execute = Execute;
    table_.wait = [](void* self, int64_t device, HammockError* error) noexcept {
      return Try(self, error, [&](Adaptor& adaptor) {
        adaptor.backend_.WaitForDevice(adaptor.DeviceOf(device));
      });
    };
    table_.hurry = [](void* self, int64_t device) noexcept {
      TryVoid(self, [&](Adaptor& adaptor) { adaptor.backend_.Hurry(adaptor.DeviceOf(device)); });
    };
    table_.set_seed = [](void* self, uint64_t seed) noexcept {
      TryVoid(self, [&](Adaptor& adaptor) { adaptor.backend_.SetRngSeed(seed); });
    };
    table_.fingerprint = Fingerprint;
    table_.serialize = Serialize;
    table_.deserialize = Deserialize;
    table_.executable_text = ExecutableText;
    table_.describe_executable = DescribeExecutable;
    table_.report = [](void* self, HammockWriter text) noexcept {
      TryVoid(self, [&](Adaptor& adaptor) {
        hammock_write(text, adaptor.backend_.CreateMetricReport().c_str());
      });
    };
    table_.numbers = [](void* self, HammockNumbers numbers) noexcept {
      TryVoid(self, [&](Adaptor& adaptor) {
        for (const auto& [name, value] : adaptor.backend_.GetMetrics()) {
          numbers.add(numbers.context, name.c_str(), value);
        }
      });
    };
  }

  const std::string name_, version_, fallback_;
  BackendImplInterface& backend_;
  const HammockHost& host_;
  ExchangeAdaptor exchange_;
  const std::vector<BackendDevice> devices_;
  HandleTable<BackendDataPtr> data_{7};
  HandleTable<ComputationPtr> executables_{8};
  HammockPlugin table_ = {};
  const bool outside_;  // the backend has a copy of the library of its own
};

}  // namespace

const HammockPlugin* Adapt(const char* name, const char* version,
                           BackendImplInterface* (*backend)(), const HammockHost* host) noexcept {
  if (!host || host->version_major != HAMMOCK_PLUGIN_MAJOR) return nullptr;
  try {
    if (!PluginHost::IsOurs(*host)) {
      LeaveListedLibraries();
      if (HAMMOCK_HAS(host, collective) && host->collective) {
        SetCollectives([host](const GraphNode& node, const Shape& type, const void* in, void* out) {
          RunOutside(*host, node, type, in, out);
        });
      }
    }
    BackendImplInterface* adapted = backend();
    if (!adapted) Throw(ErrorCode::kValue, "the backend is null");
    return (new Adaptor(name, version, adapted, host))->table();
  } catch (...) {
    ErrorText error;
    WriteCurrentError(error.c());
    host->log(host->context, HAMMOCK_LOG_ERROR,
              fmt::format("{}: {}", name ? name : "", error.text()).c_str());
    return nullptr;
  }
}

}  // namespace hammock::plugins
