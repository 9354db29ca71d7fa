#pragma once
/// The device "rogue": a plug-in that works until a test spoils its table.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "hammock/hammock.h"
#include "hammock/lazy/plugin_adaptor.h"
#include "hammock/plugins.h"
#include "support/host_backend.h"

namespace hammock::testing {

inline const HammockHost* host = nullptr;
inline HammockPlugin table;

inline const HammockPlugin* Adapted(const HammockHost* given) {
  host = given;
  return plugins::Adapt(
      "rogue", "1.0", [] { return lazy::getBackend("reference"); }, given);
}
/// A table that works, for a test to spoil.
inline const HammockPlugin* Spoilt(const HammockHost* given) {
  host = given;
  return &table;
}

class HostilePlugin : public ::testing::Test {
 protected:
  void SetUp() override {
    // The table of a plug-in that works; its host is never the one that is used below.
    static const HammockPlugin good = [] {
      HammockPlugin copy = *Adapted(FirstHost());
      copy.name = "rogue";
      return copy;
    }();
    table = good;
  }
  void TearDown() override {
    release_hang();
    for (const std::string& name : lazy::BackendNames()) {
      if (name == "rogue") lazy::UnregisterBackend("rogue", true);
    }
    // Other devices are as they were.
    EXPECT_EQ(sum(ones({5}, f32, "reference") * 2.0f).item<float>(), 10.0f);
  }

  /// What an adaptor needs of a host that is not there yet.
  static const HammockHost* FirstHost() {
    static HammockHost first = {};
    first.struct_size = sizeof(first);
    first.version_major = HAMMOCK_PLUGIN_MAJOR;
    first.log = [](void*, uint32_t, const char*) {};
    first.buffer_retain = [](void*, HammockBuffer) -> HammockStatus {
      return HAMMOCK_STALE_HANDLE;  // so that uploads are copied
    };
    return &first;
  }

  /// A computation of the plug-in.
  static lazy::ComputationPtr Compiled() {
    auto& backend = *lazy::getBackend("rogue");
    auto computation = std::make_shared<lazy::Computation>(
        "negate", ParseGraph("%0 = input : f32[3]\n%1 = neg %0 : f32[3]\nreturn %1"),
        backend.GetBackendDevice(0));
    return backend.Compile({computation}).at(0);
  }

  static plugins::Plugin Register() { return plugins::Register(Spoilt, "rogue.so"); }

  /// Milliseconds: more than any other call takes on a loaded machine.
  static constexpr char kTimeout[] = "1000";

  static void release_hang() {
    std::lock_guard lock(hang_mutex);
    hanging = false;
    hang_changed.notify_all();
  }
  static void Hang() {
    std::unique_lock lock(hang_mutex);
    hanging = true;
    hang_changed.wait_for(lock, std::chrono::seconds(20), [] { return !hanging; });
  }
  static inline std::mutex hang_mutex;
  static inline std::condition_variable hang_changed;
  static inline bool hanging = false;
};

}  // namespace hammock::testing
