#include "backends/cpu/running_collectives.h"

#include <algorithm>

#include "backends/common/collectives.h"
#include "hammock/lazy/run_context.h"
#include "hammock/metric.h"

namespace hammock::cpu {
namespace {

constinit const metrics::DeclaredCounter kOverlapped({
    .name = "cpu::OverlappedCollectives",
    .doc = "Collectives that were under way while other commands ran.",
});

}  // namespace

RunningCollectives::~RunningCollectives() {
  if (!thread_.joinable()) return;
  // After an error others may never send what is waited for: ranks close their connections.
  if (any() && agreements_) agreements_->Fail("its step failed");
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void RunningCollectives::Start(size_t command, std::vector<Range> reads, std::vector<Range> writes,
                               std::function<void()> run) {
  if (!thread_.joinable()) {
    agreements_ = CollectiveScope::Current();
    thread_ = std::thread([this] { Work(); });
  }
  metrics::Get<kOverlapped>().Add(1);
  running_.push_back({command, std::move(reads), std::move(writes), std::move(run)});
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(&running_.back());
  }
  changed_.notify_all();
}

void RunningCollectives::Work() {
  const CollectiveScope scope(agreements_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Entry& entry = *queue_.front();
    queue_.pop_front();
    const bool skip = error_ || closed_;
    lock.unlock();
    std::exception_ptr error;
    const int64_t begin = lazy::RunProfile::Now();
    try {
      if (!skip) entry.run();
    } catch (...) {
      error = std::current_exception();
    }
    const size_t command = entry.command;
    lock.lock();
    if (error && !error_) error_ = error;
    times_.push_back({command, begin, lazy::RunProfile::Now()});
    ++done_;
    changed_.notify_all();
  }
}

void RunningCollectives::AwaitFirst(size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= awaited_ + count; });
  awaited_ += count;
  running_.erase(running_.begin(), running_.begin() + static_cast<std::ptrdiff_t>(count));
  if (error_) std::rethrow_exception(error_);
}

void RunningCollectives::AwaitBefore(std::span<const Range> reads, std::span<const Range> writes) {
  auto overlap = [](std::span<const Range> some, const std::vector<Range>& others) {
    return std::ranges::any_of(some, [&](const Range& range) {
      return std::ranges::any_of(others, [&](const Range& other) { return range.Overlaps(other); });
    });
  };
  for (size_t i = running_.size(); i-- > 0;) {
    const Entry& entry = running_[i];
    if (overlap(reads, entry.writes) || overlap(writes, entry.writes) ||
        overlap(writes, entry.reads)) {
      return AwaitFirst(i + 1);
    }
  }
}

void RunningCollectives::AwaitAll() {
  if (any()) AwaitFirst(running_.size());
}

}  // namespace hammock::cpu
