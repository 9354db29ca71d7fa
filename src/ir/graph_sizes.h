#pragma once
/// Graphs with dim parameters at sizes.

#include <cstdint>
#include <optional>
#include <vector>

#include "hammock/ir/graph.h"

namespace hammock {

/// The values of a graph's dim parameters for inputs of these types.
struct BoundSizes {
  std::vector<int64_t> parameters;
  std::optional<size_t> misfit;  ///< the first input whose type no values give
};
BoundSizes BindSizes(const Graph& general, const std::vector<Shape>& inputs);

/// A graph with dim parameters at values of them, without the parameters. ValueError where a size
/// then is negative.
Graph AtSizes(const Graph& general, const std::vector<int64_t>& parameters);

}  // namespace hammock
