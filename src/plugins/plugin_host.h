#pragma once
/// PluginHost: the functions that one plug-in may call, and the handles that it was given.

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hammock/host_tensor.h"
#include "hammock/lazy/backend_data.h"
#include "hammock/lazy/run_context.h"
#include "hammock/plugin.h"
#include "plugins/handle_table.h"

namespace hammock::profile {
class Span;
}

namespace hammock::plugins {

/// Lives for ever, as the plug-in's library does. Thread-safe.
class PluginHost {
 public:
  PluginHost();
  const HammockHost* table() const { return &table_; }
  /// Whether a table is that of this copy of the library.
  static bool IsOurs(const HammockHost& table);
  /// The plug-in's name, for messages; empty until it is known.
  void SetName(std::string name) { name_ = std::move(name); }

  /// Bytes of an upload; those of a buffer that was not retained end with the call.
  HammockBuffer AddBuffer(HostTensor tensor) { return buffers_.Add({std::move(tensor), 1}); }
  void DropBuffer(HammockBuffer buffer) { Release(buffer); }

  /// To be set by the plug-in. `nodes` are those of the graph, for the check of errors.
  HammockEvent AddEvent(BackendDataPtr data, int32_t nodes, std::shared_ptr<const HammockRun> run);
  /// Null where it was set already.
  BackendDataPtr TakeEvent(HammockEvent event);
  /// Whether one is pending for longer, counted from when this was first asked.
  bool HasLateEvent(std::chrono::steady_clock::time_point now, std::chrono::milliseconds most);
  /// Sets all that are pending to an error.
  void FailEvents(const std::shared_ptr<const Error>& error);

  /// The exception of the last collective of this thread; a plug-in passes on no more than its
  /// text.
  static std::exception_ptr TakeCollectiveError();
  /// The exception in flight is one, if a step with collectives runs.
  static void KeepCollectiveError();

  /// A run in a profile; it ends when the returned object goes.
  std::shared_ptr<const HammockRun> AddRun(const lazy::RunProfile& profile);

  /// Declares the plug-in's options.
  void DeclareOptions(const HammockPlugin& plugin);

 private:
  struct Buffer {
    HostTensor tensor;
    int64_t users;
  };
  struct Event {
    BackendDataPtr data;
    int32_t nodes;
    std::shared_ptr<const HammockRun> run;
    std::chrono::steady_clock::time_point seen;  // for the first time, by HasLateEvent
  };
  struct OpenSpan {
    std::shared_ptr<profile::Span> span;
    std::thread::id thread;
  };
  struct DeclaredMetric;

  friend struct HostFunctions;
  HammockStatus Release(HammockBuffer buffer);

  HammockHost table_;
  std::string name_;
  HandleTable<Buffer> buffers_{1};
  HandleTable<Event> events_{2};
  HandleTable<lazy::RunProfile> runs_{3};
  HandleTable<void*> options_{4};  // config::detail::AnyOption
  HandleTable<std::shared_ptr<DeclaredMetric>> metrics_{5};
  HandleTable<OpenSpan> spans_{6};
};

}  // namespace hammock::plugins
