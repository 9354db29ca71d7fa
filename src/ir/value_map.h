#pragma once
/// ValueMap: what the values of one graph became in another that is made of it.

#include <span>
#include <vector>

#include "hammock/ir/graph.h"

namespace hammock {

class ValueMap {
 public:
  explicit ValueMap(const Graph& from) : first_(from.size()) { values_.reserve(from.size()); }

  GraphValue operator()(GraphValue value) const {
    if (!value.node) return value;
    return values_[first_[value.node] + value.index];
  }

  void Set(NodeId node, std::span<const GraphValue> values) {
    first_[node] = static_cast<uint32_t>(values_.size());
    values_.insert(values_.end(), values.begin(), values.end());
  }
  void Set(NodeId node, GraphValue value) { Set(node, std::span(&value, 1)); }
  /// The results of `node` became those of `other`, of which there are `count`.
  void SetResults(NodeId node, NodeId other, size_t count) {
    first_[node] = static_cast<uint32_t>(values_.size());
    for (size_t i = 0; i < count; ++i) values_.push_back({other, static_cast<int32_t>(i)});
  }

 private:
  std::vector<GraphValue> values_;
  NodeMap<uint32_t> first_;  // by node: the place of its first value
};

}  // namespace hammock
