#include "base/fork.h"

#include <pthread.h>

#include <atomic>

namespace hammock {
namespace {

constinit std::atomic<uint64_t> forks{0};

}  // namespace

uint64_t ForkCount() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return forks.load(std::memory_order_relaxed);
}

}  // namespace hammock
