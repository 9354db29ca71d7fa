#pragma once
/// How PluginBackend calls functions of the table; for its own files.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/log.h"
#include "base/process_exit.h"
#include "base/throw.h"
#include "hammock/option.h"
#include "plugins/plugin_backend.h"
#include "plugins/plugin_data.h"

namespace hammock::plugins {

using lazy::BackendDevice;
using lazy::ComputationPtr;

extern config::Option<int64_t> kTimeout;

/// The option `plugin_timeout`, at most a year so that times do not overflow; 0: there is none.
inline std::chrono::milliseconds Timeout() {
  constexpr int64_t kYear = int64_t{365} * 24 * 3600 * 1000;
  return std::chrono::milliseconds(std::clamp<int64_t>(config::Get<kTimeout>(), 0, kYear));
}

/// The same for a call that begins now: while the process ends, no longer than exit waits for other
/// work, and a grace.
std::chrono::milliseconds CallTimeout();

/// Without results, or with those that go straight to the caller's memory.
struct NoState {};

inline HammockShape ShapeOf(const Shape& shape) {
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

inline HammockExecutable ExecutableOf(const ComputationPtr& computation) {
  if (!computation) Throw(ErrorCode::kValue, "the computation is null");
  if (!computation->artifact) {
    Throw(ErrorCode::kValue, "computation '{}' was not compiled", computation->name());
  }
  return static_cast<const Executable*>(computation->artifact.get())->handle;
}

/// Data of the plug-in has the object of its device type.
inline PluginData& DataOf(const PluginBackend& plugin, const BackendDataPtr& data) {
  if (data && data->device().device_type() == plugin.type()) [[likely]]
    return static_cast<PluginData&>(*data);
  Throw(ErrorCode::kForeignTensor, "{}: the data is that of another backend", plugin.table().name);
}

inline HammockData HandleOf(const PluginBackend& plugin, const BackendDataPtr& data) {
  if (const HammockData handle = DataOf(plugin, data).data()) [[likely]]
    return handle;
  Throw<DeviceError>(ErrorCode::kDevice, "{}: the data has no value, or was donated",
                     plugin.table().name);
}

template <class State, class F>
void PluginBackend::Call(const char* function, State& state, F call, Pace* pace,
                         const Graph* graph) const {
  ThrowIfLost();
  using Way = Pace::Way;
  const Way way = pace ? pace->Next() : Way::kElsewhere;
  if (way != Way::kElsewhere && !process_exit::Begun()) [[likely]]
    return CallHere(state, call, *pace, way == Way::kHereTimed, graph);
  CallElsewhere(function, state, call, pace, graph);
}

template <class State, class F>
void PluginBackend::CallHere(State& state, F& call, Pace& pace, bool timed,
                             const Graph* graph) const {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin;
  if (timed) [[unlikely]]
    begin = Clock::now();
  ErrorText error;
  HammockStatus status;
  {
    const monitor::InCall in_call(pace);
    status = call(table_, state, error.c());
  }
  if (timed) [[unlikely]]
    pace.Note(Clock::now() - begin);
  if (status != HAMMOCK_OK) [[unlikely]]
    Raise(pace.function, status, error, graph);
}

template <class State, class F>
void PluginBackend::CallElsewhere(const char* function, State& state, F& call, Pace* pace,
                                  const Graph* graph) const {
  struct Watched {
    Watched(State&& given, F call) : state(std::move(given)), call(std::move(call)) {}
    State state;
    F call;
    ErrorText error;
    HammockStatus status = HAMMOCK_OK;
    std::exception_ptr thrown;
    std::chrono::nanoseconds duration{};
  };
  auto watched = std::make_shared<Watched>(std::move(state), std::move(call));
  auto run = [this, watched] {
    const auto begin = std::chrono::steady_clock::now();
    try {
      watched->status = watched->call(table_, watched->state, watched->error.c());
    } catch (...) {
      watched->thrown = std::current_exception();
    }
    watched->duration = std::chrono::steady_clock::now() - begin;
  };
  monitor::KeepRunning();
  const std::chrono::milliseconds timeout = CallTimeout();
  if (timeout.count() == 0) {
    run();
  } else if (!watchdog_.Run(run, timeout)) {
    Lose(function, timeout.count());
    ThrowIfLost();
  }
  if (pace) pace->Note(watched->duration);
  state = std::move(watched->state);
  if (watched->thrown) std::rethrow_exception(watched->thrown);
  if (watched->status != HAMMOCK_OK) Raise(function, watched->status, watched->error, graph);
}

template <class State, class F>
void PluginBackend::Tell(const char* function, State& state, F call, Pace* pace) const noexcept {
  try {
    if (lost_) return;
    Call(
        function, state,
        [call](const HammockPlugin& table, State& given, HammockError*) {
          call(table, given);
          return HAMMOCK_OK;
        },
        pace);
  } catch (const std::exception& error) {
    Log(LogLevel::kError, "{}: {}: {}", table_.name, function, error.what());
  } catch (...) {
    Log(LogLevel::kError, "{}: {}: an exception", table_.name, function);
  }
}

}  // namespace hammock::plugins
