#pragma once
/// SizedSchedule: a schedule for many sizes, made once.
///
/// Note [Sized schedules]
/// Schedules of one graph at different sizes mostly differ in numbers alone: extents, strides,
/// offsets, bytes. A SizedSchedule is the schedule at some sizes with those numbers as polynomials
/// in the dim parameters (size_grid.h), so that the schedule at other sizes is arithmetic.
///
/// Which nodes share a kernel changes no bit of a result, so a schedule may be used where the
/// scheduler would have made another one. What a backend's passes over the graph decide may change
/// bits. They compare sizes with bounds: what is so at both ends of a range is so between them.
/// Therefore both ends of the range that is covered are rewritten and compared when the
/// SizedSchedule is made, and what is so for sizes that follow each other is asked by the grid.

#include <functional>
#include <memory>
#include <vector>

#include "compiler/sizes/generalise.h"
#include "compiler/sizes/size_grid.h"
#include "compiler/sizes/skeleton.h"
#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

struct ScheduledGraph {
  Graph graph;  ///< as it is run
  Schedule schedule;
};

template <class Io>
void Fields(Io& io, ScheduledGraph& scheduled) {
  io(scheduled.graph, scheduled.schedule);
}

/// How a backend gets from the sizes of a graph to its schedule.
struct SizedPlanner {
  std::function<Graph(const std::vector<int64_t>& sizes)> graph;
  std::function<Schedule(const Graph& graph)> schedule;
  DerivedSizes derived = {};  ///< whose free parameters the sizes are
};

/// Immutable.
class SizedSchedule {
 public:
  using Ptr = std::shared_ptr<const SizedSchedule>;
  /// Null where schedules differ in more than numbers.
  static Ptr Make(const SizedPlanner& planner, const std::vector<int64_t>& sizes);
  SizedSchedule() = default;  ///< to be read from a record

  /// At sizes that the maker chose: near those that it was asked for.
  const Graph& graph() const { return base_.graph; }
  const Schedule& schedule() const { return base_.schedule; }
  bool Covers(const std::vector<int64_t>& sizes) const { return range_.Contains(sizes); }

  using Basis = SizeGrid::Basis;
  Basis BasisAt(const std::vector<int64_t>& sizes) const {
    return grid_.BasisAt(coordinates_.Of(sizes));
  }
  /// Whether the launch of a command, or the types and attributes of what it calls, vary.
  bool varies(size_t command) const { return varies_[command]; }
  BufferMap<int64_t> BytesAt(const Basis& basis) const;
  Launch LaunchAt(size_t command, const Basis& basis) const;
  /// The called node alone, the last of its graph: its operands are inputs.
  Graph CallAt(size_t command, const Basis& basis) const;
  ScheduledGraph At(const Basis& basis) const;  ///< in whole
  /// The schedule at sizes that do not exist, of which no two numbers are equal by chance: those
  /// that are equal here are equal at all sizes. Its graph is graph().
  Schedule AtDistinctSizes() const;

  int64_t bytes() const;  ///< that it holds, about

  template <class Io>
  friend void Fields(Io& io, SizedSchedule& sized) {
    io(sized.coordinates_, sized.grid_, sized.base_, sized.slots_, sized.sizes_,
       sized.graph_indices_, sized.buffer_bytes_, sized.launches_, sized.varies_, sized.range_);
  }

 private:
  struct Sample;
  using Varying = std::vector<std::pair<int, SizePolynomial>>;  // by index in its list

  SizedSchedule(SizeCoordinates coordinates, SizeGrid grid, ScheduledGraph base)
      : coordinates_(std::move(coordinates)), grid_(std::move(grid)), base_(std::move(base)) {}
  static Ptr MakeAround(const SizedPlanner& planner, const SizeCoordinates& coordinates,
                        SizeGrid::Products products, const std::vector<int64_t>& base,
                        const std::vector<int64_t>& sizes);
  /// The last sample is at `check`, the others are those of the grid.
  bool Fit(const std::vector<Sample>& samples, const std::vector<int64_t>& check);
  void FindVaryingCommands();
  /// Whether the graph at these sizes is the one that the polynomials give.
  bool Gives(const SizedPlanner& planner, const Skeleton& base,
             const std::vector<int64_t>& sizes) const;
  bool NodeVaries(NodeId node) const;
  GraphNode NodeAt(NodeId node, const Basis& basis) const;

  SizeCoordinates coordinates_;
  SizeGrid grid_;
  ScheduledGraph base_;
  std::vector<SizeSlot> slots_;        // of the graph's numbers that vary, by node
  std::vector<SizePolynomial> sizes_;  // what they are
  std::vector<int> graph_indices_;     // which of the skeleton's sizes they are
  Varying buffer_bytes_;
  std::vector<Varying> launches_;  // by command
  std::vector<bool> varies_;       // by command
  SizeRange range_;
};

}  // namespace hammock::compiler
