#include "backends/cpu/host/thread_pool.h"

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

#include "base/cpu_relax.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/process_exit.h"
#include "hammock/config.h"

namespace hammock::cpu {
namespace {

constinit config::Option<int64_t> kThreads({
    .name = "cpu.threads",
    .default_value = 0,
    .doc = "Threads that work on one computation of the CPU backend; 0: as many as the cores that "
           "the process may use.",
    .old_name = "cpu_threads",
});

constexpr int kSlots = 64;  // regions that workers can see at once
constexpr int kMaxThreads = 1024;
constexpr int kPartsPerThread = 4;
constexpr int kMaxShares = 16;
// Waking takes some 50 us, recording a step of training as long or longer. So threads watch for
// what comes next for a while, and soon let others run in between.
constexpr auto kWatch = std::chrono::microseconds(300);
constexpr auto kWatchAlone = std::chrono::microseconds(50);
// A thread that has just computed most often does so again soon: waking a worker for the time
// between two requests costs more than it gives.
constexpr auto kComesBack = std::chrono::microseconds(200);

void Sleep(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void Wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

/// The number of callers and regions that this thread is in; workers are never callers.
constinit thread_local int calls_of_thread = 0;

int64_t Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// Whether `done()` became true within the time that a thread watches.
template <class F>
bool Watch(F done) {
  std::chrono::steady_clock::time_point start;
  for (int turn = 0;; ++turn) {
    if (done()) return true;
    CpuRelax();
    if (turn % 64 != 63) continue;
    auto now = std::chrono::steady_clock::now();
    if (turn == 63) start = now;
    if (now - start > kWatch) return false;
    if (now - start > kWatchAlone) sched_yield();
  }
}

constinit thread_local const std::atomic<bool>* cancel_flag = nullptr;

void ThrowIfCancelled() {
  if (cancel_flag && cancel_flag->load(std::memory_order_relaxed)) [[unlikely]]
    throw process_exit::Cancelled();
}

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

  /// Runs chunks until all are claimed, or `leave()`; those of the thread's own share first.
  template <class F>
  void Work(int worker, int own_share, F leave) {
    for (int i = 0; i < share_count; ++i) {
      Share& share = shares[(own_share + i) % share_count];
      for (int64_t chunk;
           (chunk = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        if (cancel && cancel->load(std::memory_order_relaxed)) [[unlikely]]
          return;
        if (chunk < failed.load(std::memory_order_relaxed)) RunChunk(chunk, worker);
        if (leave()) return;
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
  /// A slot in which workers find a region. `users` counts its caller and the workers that joined;
  /// at 0 the slot is free.
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
  alignas(64) std::atomic<int> callers{0};
  std::atomic<int> helpers{0};                    // workers that help one
  std::atomic<const void*> last_caller{nullptr};  // that left, by the address of a thread-local
  std::atomic<int64_t> left_at{0};                // when it did; 0: it is back
  alignas(64) std::atomic<int> sleepers{0};
  std::atomic<uint32_t> wakes{0};
  Slot slots[kSlots];
  std::atomic<int> started{0};
  std::mutex starting;

  /// Cores that neither callers nor helpers use.
  int IdleCores() const {
    int idle = threads() - callers.load() - helpers.load();
    if (idle != 1) return idle;
    constexpr int64_t kSoon = std::chrono::steady_clock::duration(kComesBack).count();
    return Now() - left_at.load(std::memory_order_relaxed) < kSoon ? 0 : 1;
  }
  bool StartHelping();
  bool StopHelpingIfCrowded();
  void WakeSome(int wanted);
  void Start(int wanted);
  void WorkForEver(int number);
  bool HelpIn(int index, int number);
  Slot* TakeSlot();
  void Offer(Slot& slot, Region& region);
  void Close(Slot& slot);
  uint64_t BitOf(const Slot& slot) const { return uint64_t{1} << (&slot - slots); }
};

/// Starts threads until there are `wanted` of them, without the caller's.
void ThreadPool::State::Start(int wanted) {
  std::lock_guard lock(starting);
  for (int i = started.load(std::memory_order_relaxed); i < wanted; ++i) {
    try {
      std::thread([this, i] { WorkForEver(i); }).detach();
    } catch (const std::system_error& error) {
      // Work continues with the threads that exist; the next region tries again.
      LogOnce("cpu.threads", LogLevel::kWarn, "cpu: thread {} of {} cannot be started: {}", i + 1,
              wanted, error.what());
      return;
    }
    started.store(i + 1, std::memory_order_relaxed);
  }
}

void ThreadPool::State::WorkForEver(int number) {
  pthread_setname_np(pthread_self(), "hammock-cpu");
  calls_of_thread = 1;
  auto wanted = [&] { return open.load(std::memory_order_seq_cst) != 0 && IdleCores() > 0; };
  while (true) {
    if (wanted() && StartHelping()) {
      // Workers begin their search at different slots, so that all regions get some.
      uint64_t bits = std::rotr(open.load(std::memory_order_seq_cst), number % kSlots);
      bool helps = bits == 0 || HelpIn((std::countr_zero(bits) + number) % kSlots, number);
      if (helps) helpers.fetch_sub(1, std::memory_order_seq_cst);
      continue;
    }
    bool found = false;
    auto stop_watching = [&] {
      found = wanted();
      return found || callers.load(std::memory_order_relaxed) >= threads();
    };
    if (Watch(stop_watching) && found) continue;
    // Either this thread sees the new region here, or its caller sees this sleeper.
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    uint32_t seen = wakes.load(std::memory_order_seq_cst);
    if (!wanted()) Sleep(wakes, seen);
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
}

/// Counts one helper more, if a core is left for it.
bool ThreadPool::State::StartHelping() {
  int now = helpers.load(std::memory_order_relaxed);
  do {
    if (callers.load(std::memory_order_relaxed) + now >= threads()) return false;
  } while (!helpers.compare_exchange_weak(now, now + 1, std::memory_order_seq_cst));
  return true;
}

/// Counts one helper less, if there are too many.
bool ThreadPool::State::StopHelpingIfCrowded() {
  int now = helpers.load(std::memory_order_relaxed);
  do {
    if (callers.load(std::memory_order_relaxed) + now <= threads()) return false;
  } while (!helpers.compare_exchange_weak(now, now - 1, std::memory_order_seq_cst));
  return true;
}

/// Helps with the region in a slot, if there still is one. False if it has stopped helping because
/// of callers.
bool ThreadPool::State::HelpIn(int index, int number) {
  bool left = false;
  Slot& slot = slots[index];
  uint32_t users = slot.users.load(std::memory_order_relaxed);
  do {
    if (users == 0) return true;
  } while (!slot.users.compare_exchange_weak(users, users + 1, std::memory_order_acquire,
                                             std::memory_order_relaxed));
  Region& region = *slot.region;
  int worker = region.joined.fetch_add(1, std::memory_order_relaxed);
  if (worker >= region.workers - 1) open.fetch_and(~BitOf(slot), std::memory_order_relaxed);
  if (worker < region.workers) {
    region.Work(worker, number + 1 < region.workers ? number + 1 : worker,
                [&] { return left = StopHelpingIfCrowded(); });
    // One that leaves may be followed by another, as long as there are numbers for them.
    if (!left) open.fetch_and(~BitOf(slot), std::memory_order_relaxed);
  }
  // The region may be gone after this; the slot stays.
  if (slot.users.fetch_sub(1, std::memory_order_seq_cst) == 2 &&
      slot.waiting.load(std::memory_order_seq_cst) != 0) {
    Wake(slot.users, 1);
  }
  return !left;
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
  WakeSome(region.workers - 1);
}

/// Wakes workers, no more than have a core.
void ThreadPool::State::WakeSome(int wanted) {
  int asleep = sleepers.load(std::memory_order_seq_cst);
  if (asleep == 0) return;
  int count = std::min({asleep, wanted, IdleCores()});
  if (count <= 0) return;
  wakes.fetch_add(1, std::memory_order_seq_cst);
  Wake(wakes, count);
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

ThreadPool::Caller::Caller() {
  if (calls_of_thread++ > 0) return;
  State& state = Current();
  state.callers.fetch_add(1, std::memory_order_seq_cst);
  if (state.last_caller.load(std::memory_order_relaxed) == &calls_of_thread) {
    state.left_at.store(0, std::memory_order_relaxed);
  }
}

ThreadPool::Caller::~Caller() {
  if (--calls_of_thread > 0) return;
  State& state = Current();
  state.last_caller.store(&calls_of_thread, std::memory_order_relaxed);
  state.left_at.store(Now(), std::memory_order_relaxed);
  state.callers.fetch_sub(1, std::memory_order_seq_cst);
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
  int64_t wanted = config::Get<kThreads>();
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
      ThrowIfCancelled();
      call(body, chunk, 0);
    }
    return;
  }
  if (state->started.load(std::memory_order_relaxed) < workers - 1) state->Start(threads() - 1);
  Caller caller;
  Region region(chunks, workers, call, body);
  state->Offer(*slot, region);
  region.Work(0, 0, [] { return false; });
  state->Close(*slot);
  if (region.error) std::rethrow_exception(region.error);
  ThrowIfCancelled();
}

}  // namespace hammock::cpu
