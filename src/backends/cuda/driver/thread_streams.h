#pragma once
/// ThreadStreams: which of a machine's streams each thread has; see Note [Streams] in machine.h.

#include <memory>

namespace hammock::cuda {

inline constexpr int kMostStreams = 8;

/// A thread gets a stream when it first asks and keeps it until it ends: the first of the streams
/// with the fewest threads. Thread-safe.
class ThreadStreams {
 public:
  ThreadStreams();
  ~ThreadStreams();
  ThreadStreams(const ThreadStreams&) = delete;
  ThreadStreams& operator=(const ThreadStreams&) = delete;

  /// The calling thread's.
  int Mine();
  /// The number of streams that threads have ever had; they have the lower numbers.
  int count() const;

 private:
  friend struct StreamsOfThread;
  struct Threads;
  const std::shared_ptr<Threads> threads_;  // outlives this in threads that have a stream
};

}  // namespace hammock::cuda
