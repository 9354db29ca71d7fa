#include "distributed/watchdog.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/never_destroyed.h"

namespace hammock::distributed {

/// The thread that looks at all limits. It sleeps when there have been none for a while: limits
/// come and go with every message, and to wake a thread takes longer than a small one.
class Watchdog {
 public:
  static Watchdog& Get() {
    static auto& watchdog = NeverDestroyed<Watchdog>();
    return watchdog;
  }

  void Add(TimeLimit* limit) {
    std::lock_guard lock(mutex_);
    if (!std::exchange(started_, true)) std::thread([this] { Work(); }).detach();
    limits_.push_back(limit);
    if (sleeps_) changed_.notify_all();
  }

  void Remove(TimeLimit* limit) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calling_ != limit; });
    std::erase(limits_, limit);
  }

 private:
  void Work() {
    constexpr std::chrono::milliseconds kLook{5};
    constexpr int kIdleLooks = 20;
    int idle_looks = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      idle_looks = limits_.empty() ? idle_looks + 1 : 0;
      if (idle_looks > kIdleLooks) {
        sleeps_ = true;
        changed_.wait(lock, [&] { return !limits_.empty(); });
        sleeps_ = false;
      }
      auto late = std::ranges::find_if(limits_, [](TimeLimit* limit) {
        return !limit->is_called_ && std::chrono::steady_clock::now() >= limit->end_;
      });
      if (late == limits_.end()) {
        changed_.wait_for(lock, kLook);
        continue;
      }
      TimeLimit* limit = calling_ = *late;
      lock.unlock();
      const bool goes_on = limit->goes_on_ && limit->goes_on_();
      const bool was_extended = limit->is_extended_;  // the time counts anew from the end of that
      if (!goes_on && !was_extended) limit->expired_();
      lock.lock();
      limit->is_called_ = !goes_on && !was_extended;
      limit->is_extended_ = goes_on;
      limit->end_ = std::chrono::steady_clock::now() + (goes_on ? kLook * 4 : limit->limit_);
      calling_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TimeLimit*> limits_;
  TimeLimit* calling_ = nullptr;
  bool started_ = false;
  bool sleeps_ = false;
};

TimeLimit::TimeLimit(std::chrono::milliseconds limit, std::function<void()> expired,
                     std::function<bool()> goes_on)
    : limit_(limit),
      expired_(std::move(expired)),
      goes_on_(std::move(goes_on)),
      end_(std::chrono::steady_clock::now() + limit) {
  Watchdog::Get().Add(this);
}

TimeLimit::~TimeLimit() { Watchdog::Get().Remove(this); }

}  // namespace hammock::distributed
