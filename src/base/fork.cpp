#include "base/fork.h"

#include <pthread.h>

#include <atomic>

namespace hammock {
namespace {

constinit std::atomic<uint64_t> forks{0};

// Done when the library is loaded: a static of a function that another thread is initialising at
// the moment of a fork stays locked for ever in the child.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

uint64_t ForkCount() { return forks.load(std::memory_order_relaxed); }

}  // namespace hammock
