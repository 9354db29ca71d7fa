#pragma once
/// Tools that look at the process from outside, chosen by the option `tools`: perf and gdb, which
/// are told the names of compiled functions, and NVTX, whose ranges Nsight Systems shows.

#include <cstdint>
#include <string>
#include <utility>

namespace hammock::tools {

enum Tool : uint32_t { kPerf = 1, kGdb = 2, kNvtx = 4 };

/// Costs two loads.
bool IsOn(Tool tool);

/// An NVTX range on the calling thread, from its construction to its end. Nothing happens unless
/// the option has `nvtx`, or where the NVTX library is missing, of which a warning tells once.
class Range {
 public:
  /// `name` is called only if the range is shown; it returns a std::string.
  template <class Name>
  explicit Range(Name&& name) {
    if (IsOn(kNvtx)) [[unlikely]]
      pushed_ = Push(std::forward<Name>(name)());
  }
  ~Range() {
    if (pushed_) [[unlikely]]
      Pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  /// Whether there is an NVTX library.
  static bool Push(const std::string& name);
  static void Pop();

  bool pushed_ = false;
};

}  // namespace hammock::tools
