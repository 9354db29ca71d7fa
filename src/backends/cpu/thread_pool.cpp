#include "backends/cpu/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/fork.h"
#include "base/log.h"
#include "hammock/config.h"

namespace hammock::cpu {
namespace {

constexpr int kSlots = 64;  // regions that workers can see at once
constexpr int kMaxThreads = 1024;
constexpr int kPartsPerThread = 4;
constexpr int kMaxShares = 16;
// Waking takes some 50 us, recording a step of training as long or longer. So threads watch for
// what comes next for a while, and soon let others run in between.
constexpr auto kWatch = std::chrono::microseconds(300);
constexpr auto kWatchAlone = std::chrono::microseconds(50);

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void Sleep(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void Wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

/// Whether `done()` became true within the time that a thread watches.
template <class F>
bool Watch(F done) {
  std::chrono::steady_clock::time_point start;
  for (int turn = 0;; ++turn) {
    if (done()) return true;
    Pause();
    if (turn % 64 != 63) continue;
    auto now = std::chrono::steady_clock::now();
    if (turn == 63) start = now;
    if (now - start > kWatch) return false;
    if (now - start > kWatchAlone) sched_yield();
  }
}

constinit thread_local const std::atomic<bool>* cancel_flag = nullptr;

int CoresOfThisProcess() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(CPU_COUNT(&cores), 1);
  return std::max<int>(std::thread::hardware_concurrency(), 1);
}

}  // namespace

/// One call of Run, on the caller's stack. A thread may touch it while it is a user of its slot.
struct ThreadPool::Region {
  /// Neighbouring chunks that a thread claims one by one before it helps others with theirs.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  Region(int64_t chunks, int workers, Chunk call, const void* body)
      : workers(workers), call(call), body(body), failed(chunks) {
    for (int i = 0; i < share_count; ++i) {
      shares[i].next.store(chunks * i / share_count, std::memory_order_relaxed);
      shares[i].end = chunks * (i + 1) / share_count;
    }
  }

  const int workers;
  const int share_count = std::min(workers, kMaxShares);
  const Chunk call;
  const void* const body;
  const std::atomic<bool>* const cancel = cancel_flag;
  Share shares[kMaxShares];
  alignas(64) std::atomic<int> joined{1};  // the caller is worker 0
  std::atomic<int64_t> failed;             // the lowest chunk that threw; those above are left out
  std::mutex mutex;                        // of the writes to it, and of
  std::exception_ptr error;

  /// Runs chunks until all are claimed, those of the thread's own share first.
  void Work(int worker, int own_share) {
    for (int i = 0; i < share_count; ++i) {
      Share& share = shares[(own_share + i) % share_count];
      for (int64_t chunk;
           (chunk = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        if (cancel && cancel->load(std::memory_order_relaxed)) [[unlikely]]
          return;
        if (chunk < failed.load(std::memory_order_relaxed)) RunChunk(chunk, worker);
      }
    }
  }

  void RunChunk(int64_t chunk, int worker) {
    try {
      call(body, chunk, worker);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (chunk > failed.load(std::memory_order_relaxed)) return;
      failed.store(chunk, std::memory_order_relaxed);
      error = std::current_exception();
    }
  }
};

/// The threads of one process, and the regions that they can join.
struct ThreadPool::State {
  /// Where a region is seen. `users` counts its caller and those who joined; at 0 the slot is free.
  struct alignas(64) Slot {
    std::atomic<bool> taken{false};
    std::atomic<uint32_t> users{0};
    std::atomic<uint32_t> waiting{0};  // 1 while the caller sleeps until `users` falls to 1
    Region* region = nullptr;
  };

  explicit State(State* parent) : parent(parent) {}

  State* const parent;  // of the process that forked this one: kept, never used
  const uint64_t forks = ForkCount();
  alignas(64) std::atomic<uint64_t> open{0};  // slots whose regions want workers, as bits
  alignas(64) std::atomic<int> sleepers{0};
  std::atomic<uint32_t> wakes{0};
  Slot slots[kSlots];
  std::atomic<int> started{0};
  std::mutex starting;

  void Start(int wanted);
  void WorkForEver(int number);
  bool Join(int index, int number);
  Slot* TakeSlot();
  void Offer(Slot& slot, Region& region);
  void Close(Slot& slot);
  uint64_t BitOf(const Slot& slot) const { return uint64_t{1} << (&slot - slots); }
};

/// Starts what is missing of `wanted` threads besides the caller's.
void ThreadPool::State::Start(int wanted) {
  std::lock_guard lock(starting);
  for (int i = started.load(std::memory_order_relaxed); i < wanted; ++i) {
    try {
      std::thread([this, i] { WorkForEver(i); }).detach();
    } catch (const std::system_error& error) {
      // Work goes on with those that there are; the next region tries again.
      LogOnce("cpu.threads", LogLevel::kWarn, "cpu: thread {} of {} cannot be started: {}", i + 1,
              wanted, error.what());
      return;
    }
    started.store(i + 1, std::memory_order_relaxed);
  }
}

void ThreadPool::State::WorkForEver(int number) {
  pthread_setname_np(pthread_self(), "hammock-cpu");
  while (true) {
    uint64_t bits = open.load(std::memory_order_seq_cst);
    if (bits != 0) {
      // Workers begin their search at different slots, so that all regions get some.
      bits = std::rotr(bits, number % kSlots);
      Join((std::countr_zero(bits) + number) % kSlots, number);
      continue;
    }
    if (Watch([&] { return open.load(std::memory_order_relaxed) != 0; })) continue;
    // Either this thread sees the new region here, or its caller sees this sleeper.
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    uint32_t seen = wakes.load(std::memory_order_seq_cst);
    if (open.load(std::memory_order_seq_cst) == 0) Sleep(wakes, seen);
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
}

/// Helps with the region in a slot, if there still is one.
bool ThreadPool::State::Join(int index, int number) {
  Slot& slot = slots[index];
  uint32_t users = slot.users.load(std::memory_order_relaxed);
  do {
    if (users == 0) return false;
  } while (!slot.users.compare_exchange_weak(users, users + 1, std::memory_order_acquire,
                                             std::memory_order_relaxed));
  Region& region = *slot.region;
  int worker = region.joined.fetch_add(1, std::memory_order_relaxed);
  if (worker >= region.workers - 1) open.fetch_and(~BitOf(slot), std::memory_order_relaxed);
  if (worker < region.workers) {
    region.Work(worker, number + 1 < region.workers ? number + 1 : worker);
    open.fetch_and(~BitOf(slot), std::memory_order_relaxed);
  }
  // The region may be gone after this; the slot stays.
  if (slot.users.fetch_sub(1, std::memory_order_seq_cst) == 2 &&
      slot.waiting.load(std::memory_order_seq_cst) != 0) {
    Wake(slot.users, 1);
  }
  return true;
}

ThreadPool::State::Slot* ThreadPool::State::TakeSlot() {
  for (Slot& slot : slots) {
    if (!slot.taken.load(std::memory_order_relaxed) &&
        !slot.taken.exchange(true, std::memory_order_acquire)) {
      return &slot;
    }
  }
  return nullptr;
}

void ThreadPool::State::Offer(Slot& slot, Region& region) {
  slot.region = &region;
  slot.users.store(1, std::memory_order_release);
  open.fetch_or(BitOf(slot), std::memory_order_seq_cst);
  int asleep = sleepers.load(std::memory_order_seq_cst);
  if (asleep == 0) return;
  wakes.fetch_add(1, std::memory_order_seq_cst);
  Wake(wakes, std::min(asleep, region.workers - 1));
}

/// Waits for those who joined, and frees the slot.
void ThreadPool::State::Close(Slot& slot) {
  if (open.load(std::memory_order_relaxed) & BitOf(slot)) {
    open.fetch_and(~BitOf(slot), std::memory_order_relaxed);
  }
  uint32_t users = 1;
  auto alone = [&] {
    users = slot.users.load(std::memory_order_seq_cst);
    return users == 1 && slot.users.compare_exchange_strong(users, 0, std::memory_order_seq_cst);
  };
  if (!Watch(alone)) {
    slot.waiting.store(1, std::memory_order_seq_cst);
    while (!alone()) Sleep(slot.users, users);
    slot.waiting.store(0, std::memory_order_relaxed);
  }
  slot.taken.store(false, std::memory_order_release);
}

ThreadPool::Cancellable::Cancellable(const std::atomic<bool>* flag)
    : outer_(std::exchange(cancel_flag, flag)) {}
ThreadPool::Cancellable::~Cancellable() { cancel_flag = outer_; }
const std::atomic<bool>* ThreadPool::Cancellable::Flag() { return cancel_flag; }

// Nothing on the way of a region is a static that has to be initialised: a child forked while
// another thread does that would wait for it for ever.
ThreadPool& ThreadPool::Get() {
  static constinit ThreadPool pool;
  return pool;
}

int ThreadPool::threads() {
  int64_t wanted = config::Get<config::kCpuThreads>();
  if (wanted > 0) return static_cast<int>(std::min<int64_t>(wanted, kMaxThreads));
  static constinit std::atomic<int> cores{0};
  int count = cores.load(std::memory_order_relaxed);
  if (count == 0) cores.store(count = CoresOfThisProcess(), std::memory_order_relaxed);
  return std::min(count, kMaxThreads);
}

int ThreadPool::started() const { return Current().started.load(std::memory_order_relaxed); }

/// The state of this process; a parent's is left alone, since its threads and locks are not here.
ThreadPool::State& ThreadPool::Current() {
  static constinit std::atomic<State*> current{nullptr};
  State* state = current.load(std::memory_order_acquire);
  while (!state || state->forks != ForkCount()) {
    State* fresh = new State(state);
    if (current.compare_exchange_strong(state, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *state;
}

int64_t ThreadPool::PartSize(int64_t count, int64_t grain, int max_workers) {
  int64_t parts = int64_t{std::clamp(max_workers, 1, threads())} * kPartsPerThread;
  grain = std::max<int64_t>(grain, 1);
  int64_t grains = count / grain + (count % grain != 0);
  return std::max<int64_t>((grains + parts - 1) / parts, 1) * grain;
}

void ThreadPool::Run(int64_t chunks, int max_workers, Chunk call, const void* body) {
  if (chunks <= 0) return;
  int workers = static_cast<int>(std::min<int64_t>(std::clamp(max_workers, 1, threads()), chunks));
  State* state = workers > 1 ? &Current() : nullptr;
  State::Slot* slot = state ? state->TakeSlot() : nullptr;
  if (!slot) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (cancel_flag && cancel_flag->load(std::memory_order_relaxed)) [[unlikely]]
        return;
      call(body, chunk, 0);
    }
    return;
  }
  if (state->started.load(std::memory_order_relaxed) < workers - 1) state->Start(threads() - 1);
  Region region(chunks, workers, call, body);
  state->Offer(*slot, region);
  region.Work(0, 0);
  state->Close(*slot);
  if (region.error) std::rethrow_exception(region.error);
}

}  // namespace hammock::cpu
