#pragma once
/// ThreadStreams: which of a machine's streams each thread has; see Note [Streams] in machine.h.

#include <memory>

namespace hammock::cuda {

inline constexpr int kMostStreams = 8;

/// A thread has a stream from the first time that it asks until it ends, namely the first of those
/// that the fewest threads have. Thread-safe.
class ThreadStreams {
 public:
  ThreadStreams();
  ~ThreadStreams();
  ThreadStreams(const ThreadStreams&) = delete;
  ThreadStreams& operator=(const ThreadStreams&) = delete;

  /// The calling thread's.
  int Mine();
  /// As many as threads have ever had: those with lower numbers.
  int count() const;

 private:
  friend struct StreamsOfThread;
  struct Threads;
  const std::shared_ptr<Threads> threads_;  // outlives this in threads that have a stream
};

}  // namespace hammock::cuda
