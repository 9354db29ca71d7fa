#pragma once
/// A graph as a member of records (base/record_bytes.h): with the origins of its nodes, which are
/// numbers, and without locations, which are lines of a program that may have been edited since.

#include <string>

#include "hammock/ir/graph.h"

namespace hammock {

template <class Io>
void Fields(Io& io, Graph& graph) {
  std::string bytes;
  if constexpr (!Io::kReads) bytes = Serialize(graph, {.locations = false, .origins = true});
  io(bytes);
  if constexpr (Io::kReads) graph = DeserializeGraph(bytes);
}

template <class Io>
void Fields(Io& io, DimExpr& expr) {
  io(expr.constant, expr.terms);
}

}  // namespace hammock
