#pragma once
/// Helpers for calls of all families, and the lists of calls by family.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/common/call_axis.h"
#include "backends/cuda/calls/calls.h"
#include "base/ceil_div.h"

namespace hammock::cuda {

/// Null if the call cannot run the node.
using CallMaker = std::unique_ptr<Call> (*)(const Graph& graph, const GraphNode& node,
                                            const CallContext& context);

struct CallEntry {
  const OpDef* op;
  CallMaker make;
  /// Empty, or why the node cannot be run; null: it always can.
  std::string (*why_not)(const Graph& graph, const GraphNode& node) = nullptr;
};

std::span<const CallEntry> AttentionCalls();
std::span<const CallEntry> ConvolutionCalls();
std::span<const CallEntry> CopyCalls();
std::span<const CallEntry> ElementCalls();
std::span<const CallEntry> FftCalls();
std::span<const CallEntry> IndexCalls();
std::span<const CallEntry> LoopCalls();
std::span<const CallEntry> OrderCalls();
std::span<const CallEntry> MatMulCalls();
std::span<const CallEntry> QuantizedCalls();
std::span<const CallEntry> ScanCalls();
std::span<const CallEntry> ScatterCalls();
std::span<const CallEntry> WindowCalls();

template <class T>
std::unique_ptr<Call> MakeNode(const Graph& graph, const GraphNode& node, const CallContext&) {
  return std::make_unique<T>(graph, node);
}

/// Whether a kernel reads the quantised weight of a linear layer as it is (quantized.cpp).
bool RunsWholeQuantized(const Graph& graph, const GraphNode& node);

/// A permute by tiles; null if that is not faster.
std::unique_ptr<Call> MakeTranspose(const Graph& graph, const GraphNode& node);

Grid ElementGrid(int64_t count);
Grid BlockGrid(int64_t count);

/// The type of elements of so many bytes, in kernels that only move them.
std::string_view BytesType(int64_t bytes);

inline uint64_t Argument(int64_t value) { return static_cast<uint64_t>(value); }
inline void Append(std::vector<uint64_t>& arguments, const Dims& numbers) {
  for (int d = 0; d < numbers.size(); ++d) arguments.push_back(Argument(numbers[d]));
}

}  // namespace hammock::cuda
