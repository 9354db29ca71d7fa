#pragma once
/// One row in one process: all sides in turn, so that noise hits each of them.

#include <map>
#include <string>
#include <vector>

#include "workload.h"

namespace bench {

struct Times {
  double min = 0, median = 0;  // seconds; 0: not measured
  explicit operator bool() const { return median > 0; }
};

struct Options {
  int threads = 2;
  double budget = 0.6;  // seconds for each side of a row
  bool text = false;    // print the schedule
  bool peer = true;
};

/// What a row came to; handed from process to process as lines of text.
struct Result {
  std::map<std::string, Times> times;        // ours, trace, eager, lazy, floor
  std::map<std::string, std::string> notes;  // error, peer_error, steps, difference
};

/// Errors become notes.
Result Measure(const Row& row, const Options& options);

}  // namespace bench
