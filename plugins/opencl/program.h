#pragma once
/// Program: a compiled graph, and its run.
///
/// Note [Faults]. A call that may fail has 16 bytes of its run's `faults`: the lowest position of a
/// wrong element, and the number that makes it wrong. They are read when the run has ended; until
/// then its results are pending. Such a program takes no memory of donated arguments.

#include <hammock/compiler/donation_plan.h>
#include <hammock/compiler/memory_plan.h>
#include <hammock/compiler/program_outputs.h>
#include <hammock/lazy/backend_interface.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calls.h"
#include "device.h"

namespace opencl {

/// Immutable; threads may run it at the same time.
class Program {
 public:
  Program(const hammock::Graph& graph, Device& device);

  /// `inputs` stay alive until the device has read them, by the order of its queue.
  struct Run {
    std::vector<BlockPtr> outputs;
    /// Throws the error of the first call that failed. Called when the run has ended, with its
    /// status; empty if nothing can fail.
    std::function<void(cl_int status)> check;
    Event ended;  ///< of a run with a check
  };
  /// `donated`: by input, whether an output may take its memory.
  Run Enqueue(const std::vector<BlockPtr>& inputs, const std::vector<bool>& donated,
              const hammock::lazy::RunContext& context) const;

  bool can_fail() const { return !faults_.empty(); }
  int64_t peak_bytes() const { return plan_.peak_bytes(); }
  int64_t bytes() const;
  std::string ToText() const;
  hammock::lazy::ComputationInfo Describe() const;
  std::vector<std::string> KernelNames() const;

  /// Why a node of a lowered graph cannot be run; empty if it can.
  static std::string WhyNot(const hammock::Graph& graph, hammock::NodeId node,
                            const Device& device);

 private:
  struct CallFault {
    FaultText text;
    hammock::NodeId node;  // of the graph as it was given
  };
  struct Launch {
    const CompiledKernel* kernel;
    int64_t first;  // of its numbers
  };
  /// A part of a buffer.
  struct Place {
    cl_mem memory = nullptr;
    int64_t offset = 0;
    Place operator+(size_t bytes) const { return {memory, offset + static_cast<int64_t>(bytes)}; }
  };

  bool HasHostCommands() const;  ///< which may fail when others have run
  void PrepareCommands();
  void PackMemory();
  void PlaceNumbers();
  Place PlaceOf(const Argument& argument, size_t command,
                const hammock::compiler::BufferMap<Place>& buffers, Place arena,
                Place faults) const;
  /// The queue of a run and, where a profile is written, its kernels by command.
  struct RunQueue {
    cl_command_queue queue;
    bool timed;
    std::vector<std::pair<size_t, Event>> kernels = {};

    ~RunQueue() {  // also of a run that throws
      if (timed) clFinish(queue);
    }
  };
  void Copy(const RunQueue& queue, const Place& from, const Place& to, int64_t bytes) const;
  void RunOnHost(const RunQueue& queue, const HostCommand& host,
                 const hammock::lazy::RunContext& context, const Place& from,
                 const Place& to) const;
  void Raise(const std::vector<int64_t>& faults) const;  ///< the first one, if there is any
  void RaiseFaultsSoFar(const RunQueue& queue, const Block& faults) const;
  void Start(RunQueue& queue, const QueuedCommand& item, const Launch& launch, size_t command,
             const hammock::compiler::BufferMap<Place>& buffers, Place arena, Place faults) const;
  /// Waits for the run.
  void WriteProfile(const RunQueue& queue, const hammock::lazy::RunProfile& profile) const;

  Device& device_;
  hammock::Graph graph_;
  hammock::compiler::Schedule schedule_;
  hammock::compiler::MemoryPlan plan_;
  hammock::compiler::DonationPlan donations_;
  std::vector<hammock::compiler::OutputSource> sources_;
  bool packed_ = false;  // inputs and outputs are copied from and to the arena
  std::vector<std::vector<QueuedCommand>> queued_;  // by command of the schedule
  std::vector<std::vector<Launch>> launches_;
  std::vector<int64_t> scratch_;  // by command
  std::vector<CallFault> faults_;
  std::vector<KernelSource> kernels_;
  BlockPtr numbers_;
};

}  // namespace opencl
