#pragma once
/// What the tests of the runtime share: counts of what ran, failures where a test wants them, and a
/// gate that keeps the execution queue busy until the test opens it.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/common/fault.h"
#include "hammock/hammock.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/metrics.h"
#include "support/tensor_matchers.h"

namespace hammock::testing {

inline LazyGraphExecutor& Lazy() { return *LazyGraphExecutor::Get(); }

inline int64_t CounterOf(const std::string& name) {
  return metrics::CounterValue(name).value_or(0);
}
inline int64_t Compiles() { return CounterOf("UncachedCompile"); }
inline int64_t Hits() { return CounterOf("CachedCompile"); }

/// Nodes that the reference backend has run so far.
inline int64_t NodesRun() {
  return static_cast<int64_t>(lazy::getBackend("reference")->GetMetrics().at("nodes_run"));
}
inline int64_t ComputationsRun(const std::string& backend = "reference") {
  return static_cast<int64_t>(lazy::getBackend(backend)->GetMetrics().at("computations_run"));
}

/// "file.cpp:12" as it ends in locations.
inline std::string Line(int line, Location at = Location::current()) {
  std::string file = at.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(line);
}

/// A vector on the reference device, in host memory until a step needs it.
inline Tensor OnHost(std::initializer_list<float> values) {
  return tensor(std::vector<float>(values), std::nullopt, "reference");
}
/// A vector whose only copy is on the device.
inline Tensor OnDevice(std::initializer_list<float> values) {
  Tensor result = OnHost(values) + 0.0f;
  sync_multi({result});
  return result;
}

inline Tensor Indices(std::initializer_list<int64_t> values) {
  return tensor(std::vector<int64_t>(values), std::nullopt, "reference");
}

/// Fails whatever reaches `point` with a detail that contains `detail`, and counts how often.
class FailAt {
 public:
  explicit FailAt(FaultPoint point, std::string detail = "", int times = 1 << 30)
      : state_(std::make_shared<State>()),
        fault_([state = state_, point, detail, times](FaultPoint at, std::string_view what) {
          if (at != point || what.find(detail) == std::string_view::npos) return;
          if (state->count.fetch_add(1) >= times) return;
          throw DeviceError(ErrorCode::kDevice, "injected at " + std::string(what));
        }) {}
  int count() const { return state_->count; }

 private:
  struct State {
    std::atomic<int> count{0};
  };
  std::shared_ptr<State> state_;
  ScopedFault fault_;
};

/// While it is shut, whatever the reference device executes waits at its first node. Opens at the
/// latest when it dies.
class Gate {
 public:
  /// `hook` is asked at every point too, behind the gate.
  explicit Gate(FaultHook hook = nullptr)
      : shut_(std::make_shared<std::atomic<bool>>(true)),
        waiting_(std::make_shared<std::atomic<int>>(0)),
        fault_([shut = shut_, waiting = waiting_, hook](FaultPoint at, std::string_view what) {
          if (at == FaultPoint::kExecute && shut->load()) {
            waiting->fetch_add(1);
            shut->wait(true);
          }
          if (hook) hook(at, what);
        }) {}
  ~Gate() {
    Open();
    for (const Device& device : Devices()) {
      try {
        Lazy().DeviceBarrier(device);
      } catch (const Error&) {  // the test has looked at it, or will not
      }
    }
  }

  void Open() {
    shut_->store(false);
    shut_->notify_all();
  }
  /// Whether something has come to the gate.
  bool Reached() const { return waiting_->load() > 0; }
  void WaitReached() const {
    while (!Reached()) std::this_thread::yield();
  }

 private:
  std::shared_ptr<std::atomic<bool>> shut_;
  std::shared_ptr<std::atomic<int>> waiting_;
  ScopedFault fault_;
};

/// Code and text of the error that `fn` raises; the test fails if it raises none.
struct Raised {
  ErrorCode code{};
  std::string what;
};
template <class F>
Raised ErrorOf(F&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not a hammock::Error: " << error.what();
    return {ErrorCode{}, error.what()};
  }
  ADD_FAILURE() << "nothing was raised";
  return {};
}

/// Whether `fn` raises an error of `code` whose text has `text`.
template <class F>
::testing::AssertionResult RaisesCode(const char* statement, F&& fn, ErrorCode code,
                                      const std::string& text = "") {
  try {
    fn();
  } catch (const Error& error) {
    if (error.code() != code) {
      return ::testing::AssertionFailure()
             << statement << " raises " << ErrorCodeName(error.code()) << ", not "
             << ErrorCodeName(code) << ": " << error.what();
    }
    if (std::string(error.what()).find(text) == std::string::npos) {
      return ::testing::AssertionFailure() << statement << " raises \"" << error.what()
                                           << "\", which does not contain \"" << text << '"';
    }
    return ::testing::AssertionSuccess();
  } catch (const std::exception& error) {
    return ::testing::AssertionFailure()
           << statement << " raises no hammock::Error but: " << error.what();
  }
  return ::testing::AssertionFailure() << statement << " raises nothing";
}
#define EXPECT_CODE(statement, ...)           \
  EXPECT_TRUE(::hammock::testing::RaisesCode( \
      #statement, [&] { statement; }, __VA_ARGS__))

/// A clean slate: nothing queued, no error that nobody saw, nothing cached.
class Runtime : public ::testing::Test {
 protected:
  void SetUp() override {
    SetFaultHook(nullptr);
    Settle();
    Lazy().ClearComputationCache();
  }
  void TearDown() override {
    SetFaultHook(nullptr);
    Settle();
  }

 private:
  static void Settle() {
    for (int i = 0; i < 4; ++i) {
      try {
        mark_step();
        wait_device_ops();
        return;
      } catch (const Error&) {  // of the test before
      }
    }
  }
};

}  // namespace hammock::testing
