#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// Bytes that the scores of a chunk may take.
inline constexpr int64_t kScoreBytes = int64_t{1} << 30;

/// Whether ChunkAttention rewrites the node: it has no kernel, and many scores.
bool RunsInChunks(const Graph& graph, const GraphNode& node, int64_t score_bytes = kScoreBytes);

/// Attention without a kernel (f32, f64, other widths), and its gradient, as a loop over chunks
/// with few scores: some matrices of the batch at a time, or some queries of one matrix at a time.
Graph ChunkAttention(Graph graph, int64_t score_bytes = kScoreBytes);

}  // namespace hammock::cuda
