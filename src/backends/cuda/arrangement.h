#pragma once
/// The parts of a CUDA program that are the same at all sizes.

#include <algorithm>
#include <memory>
#include <vector>

#include "backends/cuda/calls/calls.h"
#include "backends/cuda/driver/machine.h"
#include "backends/cuda/emit/joint_kernel.h"
#include "hammock/compiler/donation_plan.h"
#include "hammock/compiler/program_outputs.h"
#include "hammock/compiler/schedule.h"
#include "hammock/ir/graph.h"

namespace hammock::cuda {

/// Without functions. Immutable once the program is made.
struct PreparedCommand {
  // For kernels.
  std::shared_ptr<const compiler::Launch> launch;  // where it is not the schedule's
  LaunchConfig config;
  Grid grid;
  // For the first of a group of concurrent kernels.
  std::shared_ptr<const JointKernel> joint;
  // For calls.
  std::shared_ptr<Call> call;
  bool has_functions = false;  // from a program at other sizes
  NodeId shared_as;            // for such, once it has functions
};

/// An input at which a slice begins, for one command.
struct SliceStart {
  size_t input;
  size_t command;
};

/// Order and groups of the commands, and what follows from them.
struct Arrangement {
  Graph graph;  // at some sizes
  compiler::Schedule schedule;
  std::vector<int> order;       // by command: its number before the commands were reordered
  std::vector<int> group_last;  // by command: the last of its group, whose commands are concurrent
  int64_t spread_bytes = 0;

  struct Command {
    std::vector<compiler::BufferId> operands;  // of a call
    std::vector<compiler::BufferId> results;
    int fault = -1;  // the index of its first fault word
    int fault_count = 0;
    // For errors: of the graph as given.
    NodeId node;
    LocationId location = 0;
  };
  std::vector<Command> commands;
  bool has_collectives = false;  // then no CUDA graph is made: what they do differs between runs
  int fault_count = 0;
  std::vector<bool> is_guarded;  // by command: its group has a variant that reads the run's word
  size_t gathers_before = 0;     // the command in front of which that word is set
  std::vector<SliceStart> starts;
  std::vector<compiler::OutputSource> outputs;
  compiler::DonationPlan donations, guarded_donations;

  // For programs at other sizes: the commands that do not vary, and the usual variant of their
  // functions.
  std::vector<std::shared_ptr<const PreparedCommand>> fixed;
  std::vector<std::shared_ptr<Function>> functions;
  std::shared_ptr<Function> gather;

  bool IsFixed(size_t i) const { return !fixed.empty() && fixed[i]; }
  bool is_reordered() const { return !std::is_sorted(order.begin(), order.end()); }
};

}  // namespace hammock::cuda
