#pragma once
/// Graphs in the binary form of hammock/plugin_graph.h.

#include <map>
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

/// A graph of a host that may be newer than this library. A node that cannot be read here is a
/// custom call with the same results, as far as their types can be read.
struct NewerGraph {
  struct Unread {
    std::string why;
    bool composite;  ///< whether the host has an expansion of it
  };
  Graph graph;
  std::map<NodeId, Unread> unread;
};
/// ValueError (kParse) for damaged bytes. The graph is verified.
NewerGraph ReadNewerGraph(HammockBytes bytes);

}  // namespace hammock::plugins
