#pragma once
/// SizedKey: the keys of graphs that differ in sizes only, and follow one rule.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/sizes/generalise.h"
#include "hammock/ir/graph.h"
#include "runtime/cache/walk.h"

namespace hammock {

/// A hash that graphs have in common which differ only in sizes: of their ops, in order.
uint64_t StructureOf(const Walk& walk);
uint64_t StructureOf(uint64_t scope, const Graph& traced);

/// Immutable.
class SizedKey {
 public:
  /// `key` is the key of `traced`, whose sizes `rule` gives.
  SizedKey(std::vector<uint64_t> key, const Graph& traced, const SizeRule& rule);

  /// The parameters of the rule, if `key` is that of a graph whose every word it gives. Linear.
  std::optional<std::vector<int64_t>> SizesOf(std::span<const uint64_t> key) const;
  int64_t bytes() const;

 private:
  struct Varying {
    size_t position;
    DimExpr size;
    Scalar like;  // a number that stands for a size as this does
  };

  std::vector<uint64_t> key_;       // of one of the graphs
  std::vector<Varying> varying_;    // ascending
  std::vector<size_t> defined_at_;  // positions of the parameters
  DerivedSizes derived_;
};

}  // namespace hammock
