#pragma once
/// Values whose elements are all the same: one element that is broadcast or reshaped.

#include <optional>

#include "hammock/ir/graph.h"

namespace hammock {

/// The value of one element that `value` repeats or is, if it is such.
std::optional<GraphValue> RepeatedElement(const Graph& graph, GraphValue value);
/// The number that all elements of `value` are, if that is known.
std::optional<Scalar> ConstantOf(const Graph& graph, GraphValue value);
/// Whether all elements of `value` are known to be 0, but not -0.0.
bool IsZero(const Graph& graph, GraphValue value);

}  // namespace hammock
