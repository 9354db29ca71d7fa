#pragma once
/// Collectives that are under way while other commands of the program run.
///
/// Note [Overlap]: a collective runs on a thread of its own from when its operands are there. A
/// later command waits for it if it uses memory that the collective reads or writes: the value, or
/// what the memory plan and donations have put in its place. So plans need not know of overlap, and
/// collectives keep the order that ranks agreed on.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace hammock::distributed {
class StepAgreements;
}

namespace hammock::cpu {

/// Of one run of a program; used by the thread that runs it.
class RunningCollectives {
 public:
  /// Memory that is used: [begin, end).
  struct Range {
    const char* begin;
    const char* end;
    bool Overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  };
  struct Times {
    size_t command;
    int64_t begin, end;
  };

  RunningCollectives() = default;
  /// Waits for what is under way. If that is after an error of the run, the other ranks hear of it.
  ~RunningCollectives();
  RunningCollectives(const RunningCollectives&) = delete;
  RunningCollectives& operator=(const RunningCollectives&) = delete;

  bool any() const { return !running_.empty(); }
  /// Starts it behind those that are under way.
  void Start(size_t command, std::vector<Range> reads, std::vector<Range> writes,
             std::function<void()> run);
  /// Waits for those that use memory which a command is about to read or write, and for those
  /// before them. Raises their errors.
  void AwaitBefore(std::span<const Range> reads, std::span<const Range> writes);
  void AwaitAll();
  /// When each of them ran, for profiles; after AwaitAll.
  const std::vector<Times>& times() const { return times_; }

 private:
  struct Entry {
    size_t command;
    std::vector<Range> reads, writes;
    std::function<void()> run;
  };
  void Work();
  void AwaitFirst(size_t count);

  std::deque<Entry> running_;  // as far as the run knows; the thread reads entries that it takes
  size_t awaited_ = 0;         // how many the run has waited for
  std::thread thread_;
  distributed::StepAgreements* agreements_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry*> queue_;  // guarded, like those below
  size_t done_ = 0;           // how many have ended
  bool closed_ = false;
  std::exception_ptr error_;
  std::vector<Times> times_;
};

}  // namespace hammock::cpu
