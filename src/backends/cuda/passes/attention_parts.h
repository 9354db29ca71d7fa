#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// What the scores of a part may take.
inline constexpr int64_t kScoreBytes = int64_t{1} << 30;

/// Whether AttentionInParts writes it so: no kernel has it, and its scores are many.
bool RunsInParts(const Graph& graph, const GraphNode& node, int64_t score_bytes = kScoreBytes);

/// Attention that has no kernel (f32, f64, other widths), and its gradient, as a loop over parts
/// with few scores: over some matrices of the batch at a time, or within each over some queries at
/// a time.
Graph AttentionInParts(Graph graph, int64_t score_bytes = kScoreBytes);

}  // namespace hammock::cuda
