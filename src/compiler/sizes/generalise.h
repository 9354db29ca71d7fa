#pragma once
/// From graphs that differ only in sizes to one graph with dim parameters. Note [Generalised
/// entries]
///
/// Tracing is concrete, so sizes are known only at samples: the graphs that were traced. A size
/// that varies becomes a linear expression in parameters that agrees with all samples; which of
/// several is a guess. Products and quotients of sizes are parameters that follow from others. A
/// wrong guess is noticed, never used: every size of a new graph, as traced and as lowered, is
/// compared with what the expressions give. It then becomes one more sample.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/sizes/derived_sizes.h"
#include "compiler/sizes/skeleton.h"
#include "hammock/ir/graph.h"
#include "ir/graph_record.h"

namespace hammock {

/// The sizes of one graph's two skeletons.
struct SizeSample {
  std::vector<int64_t> traced;
  std::vector<int64_t> lowered;
};

template <class Io>
void Fields(Io& io, SizeSample& sample) {
  io(sample.traced, sample.lowered);
}

/// How the sizes of a graph follow from a few of them, its parameters.
struct SizeRule {
  using Exprs = std::vector<std::pair<size_t, DimExpr>>;  // by index of the size, ascending

  /// The traced size that each parameter is. The last parameters, which no traced size is, are
  /// products of these.
  std::vector<size_t> defined_at;
  DerivedSizes derived;
  Exprs traced;  ///< of the sizes that vary
  Exprs lowered;
  SizeSample fixed;  ///< the others have these values

  /// The parameters of a graph with these traced sizes, if the rule gives exactly these.
  std::optional<std::vector<int64_t>> ParametersOf(std::span<const int64_t> traced_sizes) const;
  /// Whether the rule gives exactly these lowered sizes.
  bool Gives(std::span<const int64_t> lowered_sizes, const std::vector<int64_t>& parameters) const;
  /// "n, m"
  std::string Names() const;
};

template <class Io>
void Fields(Io& io, SizeRule& rule) {
  io(rule.defined_at, rule.derived, rule.traced, rule.lowered, rule.fixed);
}

struct FoundRule {
  std::optional<SizeRule> rule;
  /// Without one: the lowered size that no expression explains, or nothing if too many vary or
  /// none.
  std::optional<SizeSlot> unexplained;
};

/// `samples` have equal skeletons, `traced` and `lowered` say where their sizes are.
FoundRule FindRule(std::span<const SizeSample> samples, std::span<const SizeSlot> traced,
                   std::span<const SizeSlot> lowered);

/// A traced graph at other values of the parameters. Its attributes and inputs are as the rule
/// says, which may be a guess; the sizes of results are inferred. An Error where there is no such
/// graph.
Graph InferredAt(Graph traced, const SizeRule& rule, std::vector<int64_t> parameters);

/// A graph, traced or lowered, with the expressions of its sizes.
Graph WithDimParams(Graph graph, const SizeRule::Exprs& exprs,
                    const std::vector<int64_t>& parameters);

/// From and to, for each free parameter.
struct SizeRange {
  std::vector<int64_t> least, most;
  bool Contains(std::span<const int64_t> sizes) const;
};

template <class Io>
void Fields(Io& io, SizeRange& range) {
  io(range.least, range.most);
}

/// Widens a range of sizes at whose corners something holds, up to `factor` (a power of 4) times in
/// both directions, as long as it holds at the corners; upwards to the bound. What depends on
/// sizes by bounds on them then holds in between.
SizeRange Widened(SizeRange range, int64_t factor,
                  const std::function<bool(const std::vector<int64_t>& sizes)>& holds);

/// Sizes of dims at which graphs tell how other sizes follow from each of them: as they are, with
/// each one larger by itself, and with all of them larger.
std::vector<std::vector<int64_t>> SampleSizes(const std::vector<int64_t>& sizes);

/// One graph for the sizes of all these, which differ in nothing else; the first one where they
/// have the same. ValueError, which begins with `what`, where there is none.
Graph GeneralGraph(const std::string& what, std::span<const Graph> graphs);

}  // namespace hammock
