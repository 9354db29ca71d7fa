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

}  // namespace hammock
