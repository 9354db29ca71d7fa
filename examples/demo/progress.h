#pragma once
#include <chrono>
#include <cstdint>

/// One line that is rewritten in a terminal; elsewhere a line for every tenth of the way.
class Progress {
 public:
  explicit Progress(int64_t images);

  /// Whether Show would print something now; asking for the loss before that would only wait.
  bool IsDue(int64_t images_done);
  void Show(int64_t images_done, double loss);
  double Seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  const int64_t images_;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  int64_t next_line_;
};
