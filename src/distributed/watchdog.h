#pragma once
/// Time limits of calls that have none of their own.

#include <chrono>
#include <functional>

namespace hammock::distributed {

/// While one lives, `expired` is called, once and by another thread, if the call takes longer than
/// `limit`, unless `goes_on` says that the time does not count: it begins anew then. Both must not
/// throw.
class TimeLimit {
 public:
  TimeLimit(std::chrono::milliseconds limit, std::function<void()> expired,
            std::function<bool()> goes_on = nullptr);
  /// Returns when neither function runs.
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  friend class Watchdog;
  const std::chrono::milliseconds limit_;
  const std::function<void()> expired_;
  const std::function<bool()> goes_on_;
  std::chrono::steady_clock::time_point end_;
  bool is_called_ = false;
  bool is_extended_ = false;
};

}  // namespace hammock::distributed
