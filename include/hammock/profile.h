#pragma once
/// A profile: a file of the work of a process, and when it was done.
///
///   profile::Start("run.json");          // or the option `profile_file`
///   {
///     profile::Span epoch("epoch");      // a span of the program's own among the library's
///     Train();
///   }
///   profile::Stop();                     // hammock report run.json -o run.html
///
///   Activity activity;                   // totals instead of a file
///   Train();
///   std::cout << activity.totals().ToText();
///
/// A profile is JSON that ui.perfetto.dev, chrome://tracing and `hammock report` read. It is
/// complete at every moment, also if the process is killed. docs/design/profiles.md says what is in
/// it.

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "hammock/export.h"
#include "hammock/location.h"

namespace hammock {

namespace profile {

namespace detail {
/// Bit 0: a profile is being written. Above it: how many Activity objects there are, times two.
extern HAMMOCK_API std::atomic<uint32_t> wanted;
}  // namespace detail

/// Whether a profile is being written: one relaxed load.
inline bool IsOn() { return (detail::wanted.load(std::memory_order_relaxed) & 1) != 0; }

/// Begins a profile; `%p` in the path is the process id. ValueError if the file cannot be written
/// or a profile is being written already.
HAMMOCK_API void Start(const std::string& path, Location at = Location::current());
/// Ends the profile, if there is one. Called at exit.
HAMMOCK_API void Stop();

/// A span of time on the calling thread, from its construction to its end. Costs one branch where
/// no profile is written. Names are kept by pointer: give literals.
class HAMMOCK_API Span {
 public:
  explicit Span(const char* name, const char* category = "program") {
    if (IsOn()) [[unlikely]]
      Begin(name, category);
  }
  ~Span() {
    if (state_) [[unlikely]]
      End();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  /// Whether it will be written: what is only for `Set` need not be made otherwise.
  bool on() const { return state_ != nullptr; }
  /// Something to know about it.
  void Set(const char* key, std::string_view text) {
    if (state_) [[unlikely]]
      Add(key, text);
  }
  void Set(const char* key, int64_t number) {
    if (state_) [[unlikely]]
      Add(key, number);
  }

 private:
  struct State;
  void Begin(const char* name, const char* category);
  void End() noexcept;
  void Add(const char* key, std::string_view text);
  void Add(const char* key, int64_t number);

  State* state_ = nullptr;
};

/// A moment on the calling thread.
HAMMOCK_API void Mark(std::string_view name, const char* category = "program");

}  // namespace profile

/// Counts of the work in a stretch of a program, on all threads.
struct HAMMOCK_API ActivityTotals {
  int64_t steps = 0;            ///< mark_step
  int64_t graphs_compiled = 0;  ///< cache misses
  int64_t cache_hits = 0;       ///< syncs that found their graph, and replays of compiled functions
  int64_t ops_traced = 0;
  int64_t kernels_compiled = 0;
  int64_t kernels_run = 0;
  int64_t fallbacks = 0;       ///< ops that ran on the fallback device
  int64_t peak_bytes = 0;      ///< the highest of a device since the process began
  double seconds = 0;          ///< in all
  double tracing_seconds = 0;  ///< recording ops, from the first to the last of each sync
  double compiling_seconds = 0;
  double kernel_compiling_seconds = 0;  ///< of kernels, mostly on threads of their own
  double running_seconds = 0;

  std::string ToText() const;
  std::string ToJson() const;
};

/// Counts from its construction on. While one lives, the time of recording is measured, which costs
/// an op about 25 ns.
class HAMMOCK_API Activity {
 public:
  Activity();
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// Since the construction.
  ActivityTotals totals() const;

 private:
  ActivityTotals start_;
  int64_t start_ns_;
};

}  // namespace hammock
