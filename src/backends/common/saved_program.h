#pragma once
/// A compiled computation as backends that run schedules save it.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/sizes/sized_schedule.h"
#include "hammock/compiler/memory_plan.h"
#include "hammock/compiler/schedule.h"
#include "hammock/ir/graph.h"
#include "ir/graph_record.h"

namespace hammock {

/// A program at certain sizes.
struct SavedProgram {
  std::shared_ptr<const Graph> graph;  ///< as it is run
  std::shared_ptr<const compiler::Schedule> schedule;
  std::vector<int>
      group_last;  ///< by command: the last command of its group, whose commands are concurrent
  std::vector<int64_t> scratch;  ///< by command: bytes
  compiler::MemoryPlan plan;     ///< for that scratch memory

  template <class Io>
  friend void Fields(Io& io, SavedProgram& program) {
    io(program.graph, program.schedule, program.group_last, program.scratch, program.plan);
  }
};

/// The parts that programs at a range of sizes share.
struct SavedSizes {
  std::shared_ptr<const compiler::SizedSchedule> schedule;
  std::vector<int> group_last;

  template <class Io>
  friend void Fields(Io& io, SavedSizes& sizes) {
    io(sizes.schedule, sizes.group_last);
  }
};

/// All of it.
struct SavedArtifact {
  std::map<std::string, std::string> code;     ///< of kernels, by a key of the backend
  std::string algorithms;                      ///< that libraries have chosen
  std::optional<SavedProgram> program;         ///< none where `sizes` give it
  std::vector<SavedSizes> sizes;               ///< of a graph with dim parameters
  std::map<std::string, SavedProgram> bodies;  ///< of loops and branches, by graph

  template <class Io>
  friend void Fields(Io& io, SavedArtifact& artifact) {
    io(artifact.code, artifact.algorithms, artifact.program, artifact.sizes, artifact.bodies);
  }

  std::string ToBytes() const;
  /// ValueError (kParse) where the bytes end too early.
  static SavedArtifact Parse(std::string_view bytes);
};

}  // namespace hammock
