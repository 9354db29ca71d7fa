#pragma once
/// What the trial programs share. A trial is written as a user would write it, with the public
/// headers and default settings; besides its results it checks what it cost.

#include <time.h>

#include <hammock/hammock.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace trial {

inline int failures = 0;

/// At the end of `main`: 0 if every check held.
inline int Result() {
  std::printf("%s\n", failures == 0 ? "all checks hold" : "some checks fail");
  return failures == 0 ? 0 : 1;
}

inline void Check(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::printf("FAILED: %s\n", what.c_str());
}

inline void CheckNear(double got, double expected, double tolerance, const std::string& what) {
  Check(std::abs(got - expected) <= tolerance * (1 + std::abs(expected)),
        what + ": " + std::to_string(got) + ", expected " + std::to_string(expected));
}

/// "measured <= limit", with both numbers in the message.
inline void CheckAtMost(double measured, double limit, const std::string& what) {
  std::printf("%s: %.4g (at most %.4g)\n", what.c_str(), measured, limit);
  Check(measured <= limit, what);
}

/// The text of the error that `fn` raises; the check fails if it raises none.
template <class Fn>
std::string ErrorOf(Fn&& fn) {
  try {
    fn();
  } catch (const hammock::Error& error) {
    return error.what();
  }
  Check(false, "an error was expected");
  return "";
}

inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Processor time of this process: what others do on the machine does not count.
inline double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Graphs that were compiled so far.
inline int64_t Compiles() { return hammock::metrics::CounterValue("UncachedCompile").value_or(0); }

/// Resident memory of the process in MB.
inline double ResidentMB() {
  std::ifstream file("/proc/self/statm");
  long size = 0, resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident) * 4 / 1024;
}

}  // namespace trial
