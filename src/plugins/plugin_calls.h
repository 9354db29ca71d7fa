#pragma once
/// How PluginBackend calls functions of the table; for its own files.

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <vector>

#include "base/log.h"
#include "base/throw.h"
#include "hammock/option.h"
#include "plugins/plugin_backend.h"
#include "plugins/plugin_data.h"

namespace hammock::plugins {

using lazy::BackendDevice;
using lazy::ComputationPtr;

extern config::Option<int64_t> kTimeout;

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

}  // namespace hammock::plugins
