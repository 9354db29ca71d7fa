#pragma once
/// How two traced graphs differ, in the words of the recompile explainer.

#include <cstdint>
#include <string>

#include "hammock/ir/graph.h"

namespace hammock {

struct GraphDifference {
  std::string kind;    ///< "op", "attribute", "shape", "dtype", "operand", "alias", "extra nodes",
                       ///< "live output"; empty where the graphs are equal
  std::string detail;  ///< what differs, with the source lines of both
};

/// The first thing in which `now` differs from `cached`. Linear.
GraphDifference FirstDifference(const Graph& now, const Graph& cached);

/// How alike two graphs are; larger is nearer. Linear in the smaller one.
int64_t Similarity(const Graph& now, const Graph& cached);
/// Whether graphs of this similarity have enough in common to be compared node by node.
bool AreAlike(const Graph& now, const Graph& cached, int64_t similarity);

/// Whether `now` is `cached` without ops whose results are given to it: a later step of a loop
/// whose first one also made the tensors. Linear.
bool IsLaterStep(const Graph& now, const Graph& cached);

}  // namespace hammock
