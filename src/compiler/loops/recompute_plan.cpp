#include "compiler/loops/recompute_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "hammock/compiler/memory_plan.h"
#include "ir/primitives.h"

namespace hammock::compiler {

namespace {

constexpr int kMostIterations = 4;
constexpr int kMostReads = 64;     // that one decision looks at
constexpr int64_t kMostCost = 32;  // flops that a byte is worth

/// The bytes that are live at each command: a segment tree of sums and maxima.
class LiveBytes {
 public:
  explicit LiveBytes(size_t commands)
      : leaves_(static_cast<int>(std::bit_ceil(std::max<size_t>(commands, 1)))),
        added_(2 * leaves_),
        most_(2 * leaves_) {}

  void Add(int first, int end, int64_t bytes) { Add(1, 0, leaves_, first, end, bytes); }
  int64_t Most(int first, int end) const {
    return first < end ? Most(1, 0, leaves_, first, end) : 0;
  }
  int64_t Most() const { return most_[1]; }

 private:
  void Add(int node, int low, int high, int first, int end, int64_t bytes) {
    if (first >= high || end <= low) return;
    if (first <= low && high <= end) {
      added_[node] += bytes;
      most_[node] += bytes;
      return;
    }
    const int middle = (low + high) / 2;
    Add(2 * node, low, middle, first, end, bytes);
    Add(2 * node + 1, middle, high, first, end, bytes);
    most_[node] = added_[node] + std::max(most_[2 * node], most_[2 * node + 1]);
  }

  int64_t Most(int node, int low, int high, int first, int end) const {
    if (first >= high || end <= low) return kNothing;
    if (first <= low && high <= end) return most_[node];
    const int middle = (low + high) / 2;
    return added_[node] + std::max(Most(2 * node, low, middle, first, end),
                                   Most(2 * node + 1, middle, high, first, end));
  }

  static constexpr int64_t kNothing = INT64_MIN / 2;  // less than any sum

  int leaves_;
  std::vector<int64_t> added_, most_;  // of the commands below a node of the tree
};

class Planner {
 public:
  Planner(const Graph& graph, const Schedule& schedule, const Residence& residence,
          int64_t most_bytes)
      : graph_(graph),
        schedule_(schedule),
        residence_(residence),
        most_bytes_(most_bytes),
        live_(schedule.commands.size()),
        points_(schedule.buffers.size()),
        from_(schedule.buffers.size(), RecomputePlan::kNever),
        always_(schedule.buffers.size()),
        candidate_of_(schedule.buffers.size(), -1) {
    FindLives();
    FindCandidates();
  }

  RecomputePlan Make() {
    RecomputePlan plan;
    plan.from.assign(graph_.size(), RecomputePlan::kNever);
    bool chosen = true;
    for (int i = 0; chosen && i < kMostIterations; ++i) {
      chosen = false;
      for (int candidate : order_) {
        if (live_.Most() <= most_bytes_) break;
        if (Choose(candidate)) chosen = true;
      }
    }
    for (const Candidate& candidate : candidates_) {
      plan.from[candidate.node] = from_[candidate.buffer];
      if (from_[candidate.buffer] != RecomputePlan::kNever) ++plan.values;
    }
    return plan;
  }

 private:
  struct Candidate {
    NodeId node;
    BufferId buffer;
    std::vector<BufferId> reads;
    double cost;  // of a byte, in flops
  };
  struct Change {
    int first, end;  // commands
    int64_t bytes;   // that live there more than before
  };
  struct Undo {
    BufferId buffer;
    int point;  // that was added; -1: none
    int from;   // as it was
  };

  int64_t BytesOf(BufferId buffer) const { return schedule_.buffers[buffer].bytes(); }

  void FindLives() {
    for (BufferId buffer : schedule_.inputs) always_[buffer] = true;
    for (BufferId buffer : schedule_.outputs) always_[buffer] = true;
    for (size_t i = 0; i < schedule_.commands.size(); ++i) {
      const Command& command = schedule_.commands[i];
      for (BufferId buffer : command.writes) points_[buffer].push_back(static_cast<int>(i));
      for (BufferId buffer : command.reads) points_[buffer].push_back(static_cast<int>(i));
    }
    for (BufferId buffer : schedule_.buffers.ids()) {
      const std::vector<int>& points = points_[buffer];
      if (always_[buffer] || points.empty()) continue;
      live_.Add(points.front(), points.back() + 1, BytesOf(buffer));
    }
  }

  void FindCandidates() {
    BufferMap<bool> held(schedule_.buffers.size());  // by a check, whose result is the value
    for (const Command& command : schedule_.commands) {
      if (command.is_call() && graph_[command.node].op == &ops::kRequire) {
        held[schedule_.BufferOf({command.node, 0})] = true;
      }
    }
    for (NodeId id : graph_.ids()) {
      if (!residence_.IsRoot(id) || !residence_.IsInMemory(id)) continue;
      const BufferId buffer = schedule_.BufferOf({id, 0});
      if (graph_[id].types.size() != 1 || buffer != schedule_.first[id]) continue;
      if (always_[buffer] || held[buffer] || BytesOf(buffer) == 0) continue;
      const Recipe recipe = RecipeOf(graph_, residence_, id);
      if (recipe.nodes.empty() || recipe.cost > kMostCost * BytesOf(buffer)) continue;
      Candidate candidate = {id, buffer, {}, 0};
      candidate.cost = static_cast<double>(recipe.cost) / static_cast<double>(BytesOf(buffer));
      for (GraphValue read : recipe.reads) candidate.reads.push_back(schedule_.BufferOf(read));
      candidate_of_[buffer] = static_cast<int>(candidates_.size());
      order_.push_back(candidate_of_[buffer]);
      candidates_.push_back(std::move(candidate));
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return candidates_[a].cost < candidates_[b].cost; });
  }

  /// The two consecutive uses of a buffer between which most is live; the same twice: none.
  std::pair<int, int> FullestGap(BufferId buffer) const {
    const std::vector<int>& points = points_[buffer];
    std::pair<int, int> best = {points[0], points[0]};
    int64_t most = 0;
    for (size_t i = 1; i < points.size(); ++i) {
      const int64_t bytes = live_.Most(points[i - 1] + 1, points[i]);
      if (bytes <= most) continue;
      most = bytes;
      best = {points[i - 1], points[i]};
    }
    return best;
  }

  /// Computes a value again behind the gap in its life where most is live, if less is live then.
  bool Choose(int number) {
    const Candidate& candidate = candidates_[number];
    if (from_[candidate.buffer] != RecomputePlan::kNever) return false;
    const auto [last, next] = FullestGap(candidate.buffer);
    if (next <= last + 1) return false;
    const int64_t before = live_.Most(last + 1, next);
    if (before <= most_bytes_) return false;
    changes_.clear();
    undo_.clear();
    AddChange(last + 1, next, -BytesOf(candidate.buffer));
    SetFrom(candidate.buffer, next);
    const bool possible = ReadAt(candidate, next);
    const bool helps = possible && std::ranges::all_of(changes_, [&](const Change& change) {
                         return live_.Most(change.first, change.end) < before;
                       });
    if (!helps) TakeBack();
    return helps;
  }

  bool ReadAt(const Candidate& candidate, int command) {
    return std::ranges::all_of(candidate.reads,
                               [&](BufferId read) { return KeepFor(read, command); });
  }

  /// Lets a value, or its second computation, live at a command. False where that takes too long to
  /// find out.
  bool KeepFor(BufferId buffer, int command) {
    if (always_[buffer]) return true;
    if (undo_.size() > kMostReads) return false;
    std::vector<int>& points = points_[buffer];
    const int from = from_[buffer];
    // The last use of the first computation, or of the second one where the command reads that.
    const auto end =
        command < from ? std::lower_bound(points.begin(), points.end(), from) : points.end();
    const int last = *std::prev(end);
    const bool earlier = command > last && from != RecomputePlan::kNever && command < from;
    if (command > last && !earlier) AddChange(last + 1, command + 1, BytesOf(buffer));
    if (earlier) {
      AddChange(command, from, BytesOf(buffer));
      SetFrom(buffer, command);
    }
    undo_.push_back({buffer, command, from_[buffer]});
    points.insert(std::lower_bound(points.begin(), points.end(), command), command);
    return !earlier || ReadAt(candidates_[candidate_of_[buffer]], command);
  }

  void AddChange(int first, int end, int64_t bytes) {
    changes_.push_back({first, end, bytes});
    live_.Add(first, end, bytes);
  }

  void SetFrom(BufferId buffer, int from) {
    undo_.push_back({buffer, -1, std::exchange(from_[buffer], from)});
  }

  void TakeBack() {
    for (const Change& change : changes_) live_.Add(change.first, change.end, -change.bytes);
    for (size_t i = undo_.size(); i-- > 0;) {
      const Undo& undo = undo_[i];
      from_[undo.buffer] = undo.from;
      std::vector<int>& points = points_[undo.buffer];
      if (undo.point >= 0) {
        points.erase(std::lower_bound(points.begin(), points.end(), undo.point));
      }
    }
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const Residence& residence_;
  const int64_t most_bytes_;
  LiveBytes live_;
  BufferMap<std::vector<int>> points_;  // commands that write or read it, in order
  BufferMap<int> from_;                 // the first that reads its second computation
  BufferMap<bool> always_;              // inputs and outputs: in memory of their own
  BufferMap<int> candidate_of_;
  std::vector<Candidate> candidates_;
  std::vector<int> order_;  // of candidates, the cheapest first
  std::vector<Change> changes_;
  std::vector<Undo> undo_;
};

}  // namespace

RecomputePlan PlanRecomputation(const Graph& graph, const Schedule& schedule,
                                const Residence& residence, int64_t most_bytes) {
  return Planner(graph, schedule, residence, most_bytes).Make();
}

}  // namespace hammock::compiler
