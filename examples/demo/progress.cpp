#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

Progress::Progress(int64_t images)
    : images_(images), terminal_(isatty(STDOUT_FILENO) != 0), next_line_(images / 10) {}

bool Progress::IsDue(int64_t images_done) {
  if (images_done >= images_) return true;
  if (!terminal_) return images_done >= next_line_;
  return Clock::now() - shown_ > std::chrono::milliseconds(200);
}

void Progress::Show(int64_t images_done, double loss) {
  shown_ = Clock::now();
  next_line_ = images_done + images_ / 10;
  constexpr int kWidth = 30;
  int filled = static_cast<int>(kWidth * images_done / images_);
  std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  double rate = static_cast<double>(images_done) / std::max(Seconds(), 1e-9);
  bool last = images_done >= images_;
  std::printf("%s[%s] %3ld%%  loss %.3f  %6.0f images/s  %3.0f s%s", terminal_ ? "\r" : "",
              bar.c_str(), static_cast<long>(100 * images_done / images_), loss, rate, Seconds(),
              terminal_ && !last ? " " : "\n");
  std::fflush(stdout);
}

double Progress::Seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}
