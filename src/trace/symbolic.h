#pragma once
/// Graphs of what functions do to symbolic tensors.

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "hammock/ir/graph.h"
#include "hammock/ir/node.h"
#include "hammock/tensor.h"

namespace hammock {

/// Copies traced symbolic nodes into a graph, below values that are there already.
class Inliner {
 public:
  Inliner(Graph& graph, LocationId location, NodeId origin)
      : graph_(graph), location_(location), origin_(origin) {}
  /// `tensor` stands for `value`.
  void Bind(const Tensor& tensor, GraphValue value);
  GraphValue Emit(const Tensor& tensor);

 private:
  void EmitNode(const Node& node);

  Graph& graph_;
  LocationId location_;
  NodeId origin_;
  std::unordered_map<const Node*, std::vector<GraphValue>> values_;
  std::vector<Tensor> bound_;  // keeps the keys of `values_` alive
};

/// The graph of what `function` does to symbolic tensors of these types.
Graph TraceSymbolically(
    std::span<const Shape> types,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& function);

}  // namespace hammock
