#pragma once

#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// Whether attention of 16-bit floats is run by kernels or as ExpandAttention writes it; the latter
/// knows no mask but a causal one. Attention of one query is neither: its record's expansion
/// becomes loops (vector_matmuls.h).
bool ExpandsAttention(const Graph& graph, const GraphNode& node);

/// Whether kernels compute it whole (calls/attention.cpp, calls/attention_backward.cpp).
bool HasAttentionKernel(const Graph& graph, const GraphNode& node);

/// Other attention, and its gradient, as matmuls on tensor cores: scores are f32, the softmax
/// and the gradient of the scores are rounded to the operands' dtype before they are multiplied
/// again, as fused kernels for such dtypes do.
Graph ExpandAttention(Graph graph);

}  // namespace hammock::cuda
