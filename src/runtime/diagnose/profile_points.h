#pragma once
/// The events that the executor writes into a profile; see docs/design/profiles.md.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/profile_file.h"
#include "hammock/executor.h"
#include "hammock/lazy/backend_data.h"
#include "hammock/lazy/run_context.h"
#include "hammock/profile.h"

namespace hammock {

struct CompiledSegment;
struct CompiledStep;
struct DeviceEntry;
struct ThreadContext;

[[gnu::cold]] void DescribeSync(profile::Span& span, const DeviceEntry& device);
[[gnu::cold]] void WriteMiss(const CompileMiss& miss);

/// The memory of a device now; `planned` is what a run will take besides. Returns the
/// sum.
[[gnu::cold]] int64_t WriteMemory(const DeviceEntry& device, int64_t planned = 0);

/// The facts about a step that its runs write into a profile that has its graph.
struct ProfileFacts {
  uint64_t profile = 0;                // its number
  int64_t planned_bytes = 0;           // of a run besides its inputs
  std::vector<int64_t> first_kernels;  // by segment: how many kernels are in those before
};
/// The graph with its kernels as JSON; see src/runtime/diagnose/profile_graph.cpp.
std::string DescribeGraph(const CompiledStep& step, ProfileFacts* facts);

/// Waits, in a span of its own if there is something to wait for.
inline void WaitFor(const lazy::BackendData& data, const char* what) {
  if (data.IsReady()) return;
  profile::Span span(what, "wait");
  data.Wait();
}

/// A run of a compiled step, with its graph the first time.
class ProfiledRun {
 public:
  explicit ProfiledRun(CompiledStep& step) {
    if (profile::IsOn()) [[unlikely]]
      Begin(step);
  }
  ~ProfiledRun() {
    if (step_) [[unlikely]]
      End();
  }
  ProfiledRun(const ProfiledRun&) = delete;
  ProfiledRun& operator=(const ProfiledRun&) = delete;

  /// The profile of a segment of the innermost run on this thread; null where none is written.
  static const lazy::RunProfile* OfSegment(const CompiledSegment& segment);

 private:
  void Begin(CompiledStep& step);
  void End();

  CompiledStep* step_ = nullptr;
  std::shared_ptr<const ProfileFacts> facts_;
  lazy::RunProfile profile_;
  ProfiledRun* outer_run_ = nullptr;
  std::optional<profile::Span> span_;
};

}  // namespace hammock
