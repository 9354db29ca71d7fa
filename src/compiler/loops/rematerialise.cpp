#include "compiler/loops/rematerialise.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/log.h"
#include "compiler/loops/recompute_plan.h"
#include "compiler/passes/graph_editor.h"
#include "compiler/passes/remove_dead.h"
#include "hammock/compiler/memory_plan.h"
#include "hammock/compiler/program_outputs.h"
#include "hammock/config.h"
#include "hammock/metric.h"
#include "ir/primitives.h"

namespace hammock::compiler {

namespace {

constexpr int kMostTries = 4;
constexpr int64_t kLittle = 1 << 20;  // bytes that a fraction saves nothing of

constinit const metrics::DeclaredCounter kRecomputedValues({
    .name = "RecomputedValues",
    .doc = "Values that compiled graphs compute twice, by the option `memory_budget`.",
});
constinit const metrics::DeclaredCounter kMemoryBudgetMissed({
    .name = "MemoryBudgetMissed",
    .doc =
        "Compiled graphs whose intermediate values are planned to take more than `memory_budget`.",
});

// ---- The option

std::optional<MemoryBudget> ParseBudget(std::string_view text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, static_cast<size_t>(text.data() + text.size() - rest));
  if (error != std::errc() || !(number > 0)) return std::nullopt;
  if (unit.empty() && number <= 1) return MemoryBudget{.fraction = number, .at_least = kLittle};
  constexpr std::pair<std::string_view, int> kUnits[] = {
      {"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
  for (const auto& [name, bits] : kUnits) {
    const double bytes = number * static_cast<double>(int64_t{1} << bits);
    if (unit == name && bytes < 0x1p62) return MemoryBudget{.bytes = static_cast<int64_t>(bytes)};
  }
  return std::nullopt;
}

std::optional<std::string> CheckBudget(std::string_view text) {
  if (text.empty() || ParseBudget(text)) return std::nullopt;
  return "a fraction as 0.5, or bytes as 800000000, 800MiB or 1.5GiB";
}

constinit config::Option<std::string> kMemoryBudget({
    .name = "memory_budget",
    .default_value = "",
    .doc = "Memory for the intermediate values of a compiled step, as a fraction of what is "
           "planned without a budget (`0.5`), or in bytes (`1500000`, `800MiB`, `2GiB`): above it, "
           "values that are cheap to compute are computed again instead of kept. Empty: no budget.",
    .affects_code = true,
    .check = CheckBudget,
});

// ---- The graph

struct Planned {
  Schedule schedule;
  MemoryPlan memory;
};

Planned PlanOf(const Graph& graph, bool epilogues) {
  Planned planned{MakeSchedule(graph, /*aligned_outputs=*/true, epilogues), {}};
  const std::vector<int64_t> scratch(planned.schedule.commands.size());
  planned.memory = PlanMemory(planned.schedule, scratch);
  return planned;
}

/// Writes a graph in which late commands read second computations.
///
/// Every node stays where it is; the operands of a root are chosen by its command. Where a node
/// that is inlined reads, directly or not, a value that is computed twice, its late users get a
/// copy of it. A second computation stands before its first user and reads memory through barriers:
/// the scheduler goes through nodes in order and does not join what is behind a barrier with what
/// is before it.
class Recomputer {
 public:
  Recomputer(const Graph& graph, const Residence& residence, const RecomputePlan& plan)
      : graph_(graph),
        residence_(residence),
        from_(plan.from),
        out_(graph),
        again_(graph.size()),
        changes_(graph.size()),
        copies_(graph.size()) {}

  Graph Run() {
    for (NodeId id : graph_.ids()) {
      GraphNode node = out_.Take(id);
      changes_[id] = from_[id] != RecomputePlan::kNever;
      if (residence_.IsRoot(id)) {
        node.inputs = ValuesAt(graph_[id].inputs, residence_.command[id]);
      } else {
        for (GraphValue input : graph_[id].inputs) {
          if (input.node && changes_[input.node]) changes_[id] = true;
        }
      }
      out_.Keep(id, std::move(node));
    }
    return out_.Finish();  // no output is late
  }

 private:
  NodeId Append(GraphNode node, SharedList<GraphValue> inputs) {
    node.inputs = std::move(inputs);
    return out_.Append(std::move(node)).node;
  }

  /// The value that a command reads.
  GraphValue ValueAt(GraphValue value, int command) {
    if (!value.node || !changes_[value.node]) return out_.Mapped(value);
    const NodeId id = value.node;
    if (residence_.IsRoot(id)) {
      return command < from_[id] ? out_.Mapped(value) : GraphValue{Again(id), value.index};
    }
    return {Copy(id, ValuesAt(graph_[id].inputs, command)), value.index};
  }
  SharedList<GraphValue> ValuesAt(SharedList<GraphValue> values, int command) {
    values.Map([&](GraphValue value) { return ValueAt(value, command); });
    return values;
  }

  /// An inlined node with these operands.
  NodeId Copy(NodeId id, SharedList<GraphValue> inputs) {
    const NodeId first = out_.Mapped({id, 0}).node;
    if (out_.graph()[first].inputs == inputs) return first;
    for (NodeId copy : copies_[id]) {
      if (out_.graph()[copy].inputs == inputs) return copy;
    }
    copies_[id].push_back(Append(graph_[id], std::move(inputs)));
    return copies_[id].back();
  }

  /// The second computation of a value.
  NodeId Again(NodeId id) {
    if (again_[id]) return again_[id];
    const Recipe recipe = RecipeOf(graph_, residence_, id);
    std::vector<std::pair<GraphValue, GraphValue>> known;  // sorted: old and new values
    auto find = [&](GraphValue value) {
      return std::lower_bound(known.begin(), known.end(), std::pair(value, GraphValue{}));
    };
    auto learn = [&](GraphValue value, GraphValue by) { known.insert(find(value), {value, by}); };
    for (GraphValue read : recipe.reads) learn(read, Reread(read, from_[id], graph_[id]));
    for (NodeId step : recipe.nodes) {
      std::vector<GraphValue> inputs;
      for (GraphValue input : graph_[step].inputs) inputs.push_back(find(input)->second);
      learn({step, 0}, {Append(graph_[step], inputs), 0});
    }
    return again_[id] = find({id, 0})->second.node;
  }

  /// A value in memory for a second computation, which must not be joined with what made it.
  GraphValue Reread(GraphValue value, int command, const GraphNode& reader) {
    const int size = out_.graph().size();
    const GraphValue read = ValueAt(value, command);
    if (read.node.number() >= size) return read;  // made for this
    out_.For(reader);
    return out_.Add(ops::kBarrier, {read}, {}, out_.TypeOf(read));
  }

  const Graph& graph_;
  const Residence& residence_;
  const NodeMap<int>& from_;
  GraphEditor out_;
  NodeMap<NodeId> again_;
  NodeMap<bool> changes_;  // whether late users read another computation of it
  NodeMap<std::vector<NodeId>> copies_;
};

/// A fraction is a wish for every step, also for those that have nothing to compute again: missing
/// it is no warning.
void ReportMissed(const Graph& graph, const Planned& before, const Planned& after, int64_t budget,
                  bool is_fraction) {
  metrics::Get<kMemoryBudgetMissed>().Add();
  LogOnce(fmt::format("memory_budget:{}", budget), is_fraction ? LogLevel::kInfo : LogLevel::kWarn,
          "memory_budget: values of a step are planned to take {} bytes, {} with all that is "
          "cheap computed again; the budget is {} bytes. Its largest values: {}",
          before.memory.arena_bytes, after.memory.arena_bytes, budget,
          LargestBuffers(graph, after.schedule));
}

Graph WithinBudget(Graph graph, const Planned& planned, const MemoryBudget& wanted,
                   bool epilogues) {
  const int64_t budget = wanted.Of(planned.memory.arena_bytes);
  const Residence residence(graph, planned.schedule);
  Graph best = graph;
  Planned best_plan = planned;
  int values = 0;
  // The arena has gaps, which the plan of values does not know: it aims lower for them.
  int64_t aim = budget;
  for (int i = 0; i < kMostTries && best_plan.memory.arena_bytes > budget; ++i) {
    const RecomputePlan plan = PlanRecomputation(graph, planned.schedule, residence, aim);
    if (plan.values == 0) break;
    Graph tried = RemoveDead(Recomputer(graph, residence, plan).Run());
    Planned tried_plan = PlanOf(tried, epilogues);
    aim -= tried_plan.memory.arena_bytes - budget;
    if (tried_plan.memory.arena_bytes >= best_plan.memory.arena_bytes) continue;
    best = std::move(tried);
    best_plan = std::move(tried_plan);
    values = plan.values;
  }
  metrics::Get<kRecomputedValues>().Add(values);
  if (best_plan.memory.arena_bytes > budget) {
    ReportMissed(best, planned, best_plan, budget, wanted.bytes == 0);
  }
  return best;
}

}  // namespace

Graph Rematerialise(Graph graph, const MemoryBudget& budget, bool epilogues) {
  const Planned planned = PlanOf(graph, epilogues);
  if (planned.memory.arena_bytes <= budget.Of(planned.memory.arena_bytes)) return graph;
  return WithinBudget(std::move(graph), planned, budget, epilogues);
}

std::vector<Pass> RematerialisePasses(bool epilogues) {
  const std::string& text = config::Get<kMemoryBudget>();
  if (text.empty()) return {};
  auto run = [budget = *ParseBudget(text), epilogues](Graph graph) {
    return Rematerialise(std::move(graph), budget, epilogues);
  };
  return {{"rematerialise", run, /*in_bodies=*/false}};
}

}  // namespace hammock::compiler
