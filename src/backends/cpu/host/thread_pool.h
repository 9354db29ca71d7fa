#pragma once
/// ThreadPool: the threads that all computations of the CPU backend share. There is one per
/// process.
///
///   ThreadPool::Get().ParallelFor(rows, 16, [&](int64_t begin, int64_t end, int worker) {...});
///   ThreadPool::Get().ForEachChunk(tiles, [&](int64_t tile, int worker) {...});
///
/// A call is a region. Its chunks are claimed by the calling thread and by those workers that are
/// free; the caller never waits for a worker that has not begun, so a region ends even if no other
/// thread ever runs. Callers come first: workers only use the rest of `threads()`, and leave a
/// region when more callers come. So a small computation never waits for a large one, and as many
/// callers as threads share nothing. Each thread begins with a share of neighbouring chunks, the
/// same share in every region of that size: the data that it has written is in its own cache. An
/// idle worker watches for work for about 300 us, then sleeps.
///
/// Regions may be opened from any thread, several at once, and inside of others. The exception of
/// the lowest chunk that throws reaches the caller; chunks after it may be left out. `worker`
/// numbers the threads of one region from 0 (the caller): below `threads()` at the time of the
/// call and below `max_workers`, and different for threads that run at once.
///
/// The number of threads is the option `cpu.threads`; a change holds from the next region on, and
/// threads that are too many sleep. No thread is started before the first region with more than one
/// chunk. In the child of a fork the first region starts new threads; a chunk must not fork and
/// return.

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

namespace hammock::cpu {

class ThreadPool {
 public:
  static constexpr int kAnyNumber = std::numeric_limits<int>::max();

  static ThreadPool& Get();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// How many threads a region may have, the caller included; at least 1.
  static int threads();
  /// How many were started in this process.
  int started() const;

  /// While it lives, this thread counts as a caller also between its regions.
  class Caller {
   public:
    Caller();
    ~Caller();
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;
  };

  /// While it lives, regions that this thread opens stop when `flag`, which may be null, becomes
  /// true: the remaining chunks are skipped, and process_exit::Cancelled is thrown.
  class Cancellable {
   public:
    explicit Cancellable(const std::atomic<bool>* flag);
    ~Cancellable();
    Cancellable(const Cancellable&) = delete;
    Cancellable& operator=(const Cancellable&) = delete;
    /// The flag of the innermost object of this thread, or null.
    static const std::atomic<bool>* Flag();

   private:
    const std::atomic<bool>* const outer_;
  };

  /// Calls `f(begin, end, worker)` for parts of [0, count) that together are all of it. All parts
  /// but the last are multiples of `grain`; their sizes depend on the number of threads.
  template <class F>
  void ParallelFor(int64_t count, int64_t grain, F&& f, int max_workers = kAnyNumber) {
    int64_t part = PartSize(count, grain, max_workers);
    ForEachChunk(
        count <= 0 ? 0 : (count - 1) / part + 1,
        [&](int64_t chunk, int worker) {
          int64_t begin = chunk * part;
          f(begin, count - begin < part ? count : begin + part, worker);
        },
        max_workers);
  }

  /// Calls `f(chunk, worker)` once for each chunk in [0, chunks). For work that must not depend
  /// on the number of threads.
  template <class F>
  void ForEachChunk(int64_t chunks, F&& f, int max_workers = kAnyNumber) {
    using Body = std::remove_reference_t<F>;
    Run(
        chunks, max_workers,
        [](const void* body, int64_t chunk, int worker) {
          (*static_cast<Body*>(const_cast<void*>(body)))(chunk, worker);
        },
        &f);
  }

 private:
  using Chunk = void (*)(const void* body, int64_t chunk, int worker);
  struct Region;
  struct State;

  constexpr ThreadPool() = default;
  static int64_t PartSize(int64_t count, int64_t grain, int max_workers);
  static State& Current();
  void Run(int64_t chunks, int max_workers, Chunk call, const void* body);
};

}  // namespace hammock::cpu
