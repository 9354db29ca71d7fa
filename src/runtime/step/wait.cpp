#include "runtime/step/wait.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "runtime/diagnose/profile_points.h"

namespace hammock {
namespace {

constinit std::atomic<void (*)()> wait_check{nullptr};
constinit std::atomic<const HostLock*> host_lock{nullptr};

constexpr std::chrono::milliseconds kBetweenChecks{20};

struct Ready {
  std::mutex mutex;
  std::condition_variable changed;
  bool set = false;
};

}  // namespace

void SetWaitCheck(void (*check)()) { wait_check.store(check, std::memory_order_release); }

void SetHostLock(const HostLock* lock) { host_lock.store(lock, std::memory_order_release); }

WithoutHostLock::WithoutHostLock()
    : lock_(host_lock.load(std::memory_order_acquire)),
      released_(lock_ ? lock_->release() : nullptr) {}

WithoutHostLock::~WithoutHostLock() noexcept(false) {
  if (released_) lock_->take_back(released_);
}

void WaitForResult(lazy::BackendData& data) {
  if (data.IsReady()) return;
  const WithoutHostLock no_lock;
  auto* check = wait_check.load(std::memory_order_acquire);
  if (!check) return WaitFor(data, "wait for results");
  profile::Span span("wait for results", "wait");
  auto ready = std::make_shared<Ready>();  // the callback may come after an interrupted wait
  data.OnReady([ready] {
    {
      std::lock_guard lock(ready->mutex);
      ready->set = true;
    }
    ready->changed.notify_all();
  });
  data.Hurry();
  std::unique_lock lock(ready->mutex);
  while (!ready->changed.wait_for(lock, kBetweenChecks, [&] { return ready->set; })) {
    lock.unlock();
    check();
    lock.lock();
  }
}

}  // namespace hammock
