#pragma once

#include <string>
#include <vector>

#include "hammock/ir/pass.h"

namespace hammock {

/// A graph after one pass, or a graph and the schedule of its kernels.
struct PassResult {
  std::string pass;
  Graph graph;
  std::string schedule = {};  ///< as text; empty before there is one
};

/// Whether results are kept or logged.
bool ShowsPasses();
/// Keeps a result for the listener, and logs it with `print_passes`.
void ShowPass(PassResult result);

/// While one lives, keeps what each pass on this thread gives.
class PassListener {
 public:
  PassListener();
  ~PassListener();
  PassListener(const PassListener&) = delete;
  PassListener& operator=(const PassListener&) = delete;

  std::vector<PassResult> results;

 private:
  std::vector<PassResult>* outer_;
};

}  // namespace hammock
