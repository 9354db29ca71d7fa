#pragma once
/// Graphs in the binary form of hammock/plugin_graph.h.

#include <string>

#include "hammock/ir/graph.h"
#include "hammock/plugin.h"

namespace hammock::plugins {

/// Bytes that are aligned to 8.
class GraphBytes {
 public:
  explicit GraphBytes(const Graph& graph);
  HammockBytes get() const { return {words_.data(), size_}; }

 private:
  std::vector<uint64_t> words_;
  uint64_t size_;
};

/// ValueError (kParse) for damaged bytes, unknown ops and newer versions of ops. The result is
/// verified.
Graph ReadGraph(HammockBytes bytes);

}  // namespace hammock::plugins
