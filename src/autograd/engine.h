#pragma once

#include <optional>
#include <vector>

#include "autograd/tape.h"

namespace hammock {

struct BackwardRequest {
  std::vector<TapeEdge> roots;
  std::vector<Tensor> grads;      // that arrive at the roots
  std::vector<TapeEdge> targets;  // whose gradients are wanted; none: those of all leaves
  bool accumulate = false;        // add to the leaves' `.grad`
  bool retain = false;
  bool create_graph = false;
};

/// Runs the tape backward. Returns the gradients of the targets, undefined where none arrived.
std::vector<Tensor> RunBackward(const BackwardRequest& request);

}  // namespace hammock
