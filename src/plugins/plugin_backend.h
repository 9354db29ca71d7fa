#pragma once
/// PluginBackend: a plug-in as a backend.
///
/// Note [Lost plug-ins]: a call that does not return in time (Note [Hanging calls] in
/// call_monitor.h) marks the plug-in as lost: its waiters and all pending results get a
/// DeviceError, and so does every later call, which no longer reaches the plug-in. Whatever a call
/// of the Watchdog points to is part of a heap object that the abandoned thread keeps, and nothing
/// of the plug-in is released any more.

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/common/named_device_type.h"
#include "hammock/ir/storage_types.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/lazy/host_sharing.h"
#include "hammock/plugin.h"
#include "plugins/call_monitor.h"
#include "plugins/plugin_host.h"
#include "plugins/status.h"
#include "plugins/watchdog.h"

namespace hammock::plugins {

class PluginBackend : public lazy::BackendImplInterface, public lazy::HostSharing {
 public:
  /// `table` was checked and is complete. `path` is for messages.
  PluginBackend(const HammockPlugin& table, std::unique_ptr<PluginHost> host, std::string path);

  const HammockPlugin& table() const { return table_; }
  const std::string& path() const { return path_; }
  const std::shared_ptr<NamedDeviceType>& type() const { return type_; }

  /// Marks the plug-in as lost: `function` hangs.
  void Lose(const char* function, int64_t milliseconds) const;
  void LoseIfResultsAreLate(std::chrono::steady_clock::time_point now,
                            std::chrono::milliseconds most) const;

  /// Gives a handle back; a lost plug-in keeps it.
  void Release(HammockData data) const noexcept;
  void ReleaseExecutable(HammockExecutable executable) const noexcept;

  void InitializeBindings() const override;
  void PrepareToExit() const override;
  void SetRngSeed(size_t seed) const override;

  BackendDataPtr MakeComputationDataFromTensor(const HostTensor& tensor, const Shape& shape,
                                               const lazy::BackendDevice& device) const override;
  std::vector<BackendDataPtr> MakeComputationDataFromTensors(
      std::span<const HostTensor> tensors, const lazy::BackendDevice& device) const override;
  BackendDataPtr MakeComputationDataFromScalar(const Scalar& scalar,
                                               const lazy::BackendDevice& device) const override;
  BackendDataPtr CreateDataPlaceholder(const lazy::BackendDevice& device,
                                       const Shape& shape) const override;
  HostTensor MakeTensorFromComputationData(const BackendDataPtr data,
                                           std::optional<DType> type) const override;
  std::vector<HostTensor> MakeTensorsFromComputationData(
      std::span<const BackendDataPtr> data) const override;
  BackendDataPtr CopyToDevice(const BackendDataPtr& data,
                              const lazy::BackendDevice& device) const override;

  HostTensor Share(const BackendDataPtr& data) const override;

  std::vector<lazy::ComputationPtr> Compile(
      std::vector<lazy::ComputationPtr> instances) const override;
  std::vector<BackendDataPtr> ExecuteComputation(lazy::ComputationPtr computation,
                                                 std::span<const BackendDataPtr> arguments,
                                                 const lazy::BackendDevice& device,
                                                 const lazy::RunContext& run) const override;
  bool SupportsDimParams(const lazy::BackendDevice&) const override;
  lazy::ComputationPtr Instantiate(const lazy::ComputationPtr& general,
                                   std::span<const int64_t> sizes) const override;
  bool IsAsynchronous() const override { return Has(HAMMOCK_ASYNCHRONOUS); }
  bool KeepsDonatedOnFailure() const override { return Has(HAMMOCK_KEEPS_DONATED); }
  bool SupportsConcurrentExecution() const override { return Has(HAMMOCK_CONCURRENT); }
  void WaitForDevice(const lazy::BackendDevice& device) const override;
  void Hurry(const lazy::BackendDevice& device) const override;
  bool WantsOptimisedGraphs(const lazy::BackendDevice&) const override {
    return Has(HAMMOCK_OPTIMISED_GRAPHS);
  }
  lazy::Capability QueryCapability(const Graph& graph, NodeId node,
                                   const lazy::BackendDevice& device) const override;

  std::string Fingerprint(const lazy::BackendDevice& device) const override;
  std::string SerializeComputation(const lazy::ComputationPtr& computation) const override;
  lazy::ComputationPtr DeserializeComputation(std::string_view bytes,
                                              const lazy::BackendDevice& device) const override;

  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override { return type_; }
  void SetDefaultDeviceType(int8_t type) override { type_->RequireIs(type); }
  int64_t GetDefaultDeviceOrdinal() const override { return default_ordinal_; }
  void SetDefaultDeviceOrdinal(int64_t ordinal) override;
  std::string EagerFallbackDeviceType() const override;
  std::vector<lazy::BackendDevice> GetBackendDevices() const override;

  std::string CreateMetricReport() const override;
  std::map<std::string, double> GetMetrics() const override;
  lazy::MemoryInfo GetMemoryInfo(const lazy::BackendDevice& device) const override;
  void SetMemoryLimit(const lazy::BackendDevice& device, int64_t bytes) const override;
  void FreeCachedMemory(const lazy::BackendDevice& device) const override;
  std::string GetComputationBackendText(const lazy::ComputationPtr computation) const override;
  lazy::ComputationInfo DescribeComputation(const lazy::ComputationPtr& computation) const override;
  std::vector<lazy::DeviceFact> DescribeDevice(const lazy::BackendDevice& device) const override;

 protected:
  bool Has(uint32_t property) const { return (table_.properties & property) != 0; }
  /// Storage types came with version 1.2, those of two bits with 1.3: an older plug-in has their
  /// bytes as u8, and their nodes go to the fallback device.
  bool Knows(DType dtype) const { return table_.version_minor >= MinorOf(dtype); }
  static uint32_t MinorOf(DType dtype) {
    return InfoOf(dtype).bits == 2 ? 3 : IsStorage(dtype) ? 2 : 0;
  }

  /// Calls `call(table, state, error)`, which returns a status, and throws the error; `function` is
  /// for messages. `state` owns all that the call points to. With a pace the call is made here
  /// while it is quick. `graph` is that of an execution: only then a node is part of the error.
  template <class State, class F>
  void Call(const char* function, State& state, F call, Pace* pace = nullptr,
            const Graph* graph = nullptr) const;
  template <class State, class F>
  void CallHere(State& state, F& call, Pace& pace, bool timed, const Graph* graph) const;
  template <class State, class F>
  void CallElsewhere(const char* function, State& state, F& call, Pace* pace,
                     const Graph* graph) const;
  /// The same for functions that return nothing; what goes wrong is logged.
  template <class State, class F>
  void Tell(const char* function, State& state, F call, Pace* pace = nullptr) const noexcept;

  void ThrowIfLost() const {
    if (lost_.load(std::memory_order_acquire)) [[unlikely]]
      ThrowLost();
  }
  void ThrowLost() const;
  void Raise(const char* function, HammockStatus status, const ErrorText& error,
             const Graph* graph) const;
  PluginHost& host() const { return *host_; }
  /// Ends a loan; `stream`: null, nobody uses the memory any more.
  void TakeBackLoan(HammockLoan loan, const uint64_t* stream) const noexcept;

 private:
  lazy::ComputationPtr CompileBy(const char* function, const lazy::ComputationPtr& computation,
                                 std::string artifact) const;
  void Adopt(lazy::Computation& computation, const HammockCompiled& compiled,
             const char* function) const;

  const HammockPlugin table_;
  const std::unique_ptr<PluginHost> host_;
  const std::string path_;
  const std::shared_ptr<NamedDeviceType> type_;
  std::atomic<int64_t> default_ordinal_{0};
  mutable std::atomic<bool> lost_{false};
  mutable std::mutex lost_mutex_;
  mutable std::shared_ptr<const Error> why_lost_;  // set before lost_
  mutable Watchdog watchdog_;
  mutable Pace execute_pace_{*this, "execute"}, upload_pace_{*this, "upload"},
      download_pace_{*this, "download"}, release_pace_{*this, "release"},
      hurry_pace_{*this, "hurry"}, memory_pace_{*this, "memory_info"};
};

}  // namespace hammock::plugins
