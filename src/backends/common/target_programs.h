#pragma once
/// How backends that run schedules get from computations to programs. A backend has a Target:
///
///   struct Target {
///     using Program = ...;  // has by_size, is_sized(), graph(), Save(), AddBodies(), plan(),
///                           // LargestBuffers()
///     using Sized = ...;    // what programs at a range of sizes share: Covers, bytes, Save,
///                           // AddBodies
///     metrics::Counter& scheduled() const;  // counts sizes without such parts
///     Graph Rewrite(const Graph& graph) const;  // the passes of the backend
///     compiler::Schedule Schedule(const Graph& rewritten) const;  // for many sizes
///     std::shared_ptr<const Sized> Share(std::shared_ptr<const SizedSchedule> made) const;
///     std::shared_ptr<const Sized> Share(SavedSizes saved) const;
///     std::shared_ptr<Program> At(std::shared_ptr<const Sized> sized,
///                                 const std::vector<int64_t>& free) const;
///     std::shared_ptr<Program> Make(const Graph& graph) const;
///     std::shared_ptr<Program> Make(SavedProgram saved) const;
///   };

#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/common/saved_bodies.h"
#include "backends/common/saved_program.h"
#include "base/throw.h"
#include "compiler/loops/by_range.h"
#include "compiler/sizes/derived_sizes.h"
#include "compiler/sizes/sized_schedule.h"
#include "hammock/compiler/memory_plan.h"
#include "hammock/compiler/program_outputs.h"
#include "hammock/lazy/lowering_context.h"
#include "hammock/metrics.h"
#include "ir/graph_sizes.h"

namespace hammock {

/// Programs of a graph with dim parameters, at all its sizes. The rewritten graph and its schedule
/// are made once for a range of sizes; see Note [Sized schedules]. Thread-safe.
template <class Target>
class ProgramsBySize {
 public:
  using Program = typename Target::Program;
  using Sized = typename Target::Sized;

  ProgramsBySize(Graph general, DerivedSizes derived, Target target = {})
      : general_(std::move(general)), derived_(std::move(derived)), target_(std::move(target)) {}

  std::shared_ptr<Program> At(const std::vector<int64_t>& sizes) {
    if (std::optional<std::vector<int64_t>> free = FreeSizes(derived_, sizes)) {
      if (auto sized = made_.Find(*free, [&] { return MakeSized(*free); })) {
        return target_.At(std::move(sized), *free);
      }
    }
    target_.scheduled().Add();
    return target_.Make(AtSizes(general_, sizes));
  }

  int64_t bytes() const { return made_.bytes(); }
  void Add(SavedSizes saved) { made_.Add(target_.Share(std::move(saved))); }
  std::vector<std::shared_ptr<const Sized>> all() const { return made_.all(); }

 private:
  std::shared_ptr<const Sized> MakeSized(const std::vector<int64_t>& free) const {
    compiler::SizedPlanner planner;
    planner.derived = derived_;
    planner.graph = [&](const std::vector<int64_t>& at) {
      Graph graph = AtSizes(general_, AllSizes(derived_, at));
      Verify(graph);  // parameters that seem free may depend on each other
      return target_.Rewrite(graph);
    };
    planner.schedule = [&](const Graph& graph) { return target_.Schedule(graph); };
    std::shared_ptr<const compiler::SizedSchedule> made =
        compiler::SizedSchedule::Make(planner, free);
    return made ? target_.Share(std::move(made)) : nullptr;
  }

  const Graph general_;
  const DerivedSizes derived_;
  const Target target_;
  compiler::ByRange<Sized> made_;
};

/// The program of a computation. One with dim parameters has those at other sizes too.
template <class Target>
std::shared_ptr<typename Target::Program> CompileProgram(const lazy::Computation& computation,
                                                         const Target& target) {
  if (computation.graph().dim_params.empty()) return target.Make(computation.graph());
  auto by_size = std::make_shared<ProgramsBySize<Target>>(computation.graph(),
                                                          computation.derived_sizes, target);
  auto program = by_size->At(computation.sizes());
  program->by_size = std::move(by_size);
  return program;
}

/// The same from what was saved. Nothing is rewritten or scheduled.
template <class Target>
std::shared_ptr<typename Target::Program> LoadProgram(const lazy::Computation& computation,
                                                      SavedArtifact artifact,
                                                      const Target& target) {
  std::shared_ptr<ProgramsBySize<Target>> by_size;
  if (!computation.graph().dim_params.empty()) {
    by_size = std::make_shared<ProgramsBySize<Target>>(computation.graph(),
                                                       computation.derived_sizes, target);
    for (SavedSizes& sizes : artifact.sizes) by_size->Add(std::move(sizes));
  }
  const SavedBodies bodies = std::move(artifact.bodies);
  SavedBodiesScope scope(bodies);
  auto program = artifact.program ? target.Make(std::move(*artifact.program))
                                  : by_size->At(computation.sizes());
  program->by_size = std::move(by_size);
  return program;
}

/// All but code and algorithms.
template <class Program>
SavedArtifact SaveProgram(const Program& program) {
  SavedArtifact artifact;
  if (!program.is_sized()) artifact.program = program.Save();
  std::vector<const Program*> bodies;
  program.AddBodies(bodies);
  if (program.by_size) {
    for (const auto& sized : program.by_size->all()) {
      artifact.sizes.push_back(sized->Save());
      sized->AddBodies(bodies);
    }
  }
  for (const Program* body : bodies) {
    std::string key = ToString(body->graph().hash());
    if (!artifact.bodies.contains(key)) artifact.bodies.emplace(std::move(key), body->Save());
  }
  return artifact;
}

/// The artifact of a computation, and what is known of its memory.
template <class Program>
void SetProgram(lazy::Computation& computation, std::shared_ptr<Program> program) {
  computation.artifact_bytes =
      program->bytes() + (program->by_size ? program->by_size->bytes() : 0);
  computation.artifact = std::move(program);
}

/// For people: the graph, its commands and their memory.
std::string DescribePlan(const Graph& graph, const compiler::Schedule& schedule,
                         const compiler::MemoryPlan& plan);

/// `run`; where memory is short, the error says what the run needs, and most of it for what.
template <class Program, class Run>
auto WithPlanInErrors(const Program& program, const Run& run) -> decltype(run()) {
  try {
    return run();
  } catch (const OutOfMemory& error) {
    const std::string largest = program.LargestBuffers();
    if (largest.empty()) throw;
    OutOfMemory with_plan(error.code(),
                          fmt::format("{}; the run needs {} bytes besides its inputs, most for {}",
                                      error.message(), program.plan().peak_bytes(), largest));
    with_plan.SetWhere(error.where());
    throw with_plan;
  }
}

}  // namespace hammock
