#include "backends/cuda/driver/thread_streams.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/of_thread.h"

namespace hammock::cuda {

struct ThreadStreams::Threads {
  std::mutex mutex;
  std::array<int, kMostStreams> with{};  // by stream: how many threads have it
  std::atomic<int> count{0};
  std::atomic<bool> is_over{false};  // the machine is gone
};

/// Given back when the thread ends.
struct StreamsOfThread {
  struct Entry {
    std::shared_ptr<ThreadStreams::Threads> threads;
    int stream = 0;
  };
  ~StreamsOfThread() {
    last_threads = nullptr;
    for (const Entry& entry : by_machine) {
      std::lock_guard lock(entry.threads->mutex);
      --entry.threads->with[entry.stream];
    }
  }
  int Of(const std::shared_ptr<ThreadStreams::Threads>& threads);

  std::vector<Entry> by_machine;
  // The last one that was asked for: most threads use one machine.
  static inline constinit thread_local const ThreadStreams::Threads* last_threads = nullptr;
  static inline constinit thread_local int last_stream = 0;
};

int StreamsOfThread::Of(const std::shared_ptr<ThreadStreams::Threads>& threads) {
  for (const Entry& entry : by_machine) {
    if (entry.threads == threads) return entry.stream;
  }
  std::erase_if(by_machine, [](const Entry& entry) { return entry.threads->is_over.load(); });
  std::lock_guard lock(threads->mutex);
  auto fewest = std::ranges::min_element(threads->with);
  ++*fewest;
  const int stream = static_cast<int>(fewest - threads->with.begin());
  threads->count = std::max(threads->count.load(), stream + 1);
  by_machine.push_back({threads, stream});
  return stream;
}

ThreadStreams::ThreadStreams() : threads_(std::make_shared<Threads>()) {}
ThreadStreams::~ThreadStreams() { threads_->is_over = true; }

int ThreadStreams::Mine() {
  if (StreamsOfThread::last_threads != threads_.get()) {
    StreamsOfThread::last_stream = OfThread<StreamsOfThread>().Of(threads_);
    StreamsOfThread::last_threads = threads_.get();
  }
  return StreamsOfThread::last_stream;
}

int ThreadStreams::count() const { return threads_->count; }

}  // namespace hammock::cuda
