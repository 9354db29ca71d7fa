#pragma once

#include <string>
#include <vector>

#include "hammock/ir/pass.h"

namespace hammock {

/// A graph after one pass.
struct PassResult {
  std::string pass;
  Graph graph;
};

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
