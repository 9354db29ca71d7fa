#pragma once
/// Runs graphs as programs of the CUDA backend on the emulated machine.

#include <string>
#include <vector>

#include "backends/cuda/arrangement.h"
#include "backends/cuda/driver/fault_words.h"
#include "backends/cuda/emulation/emulated_machine.h"
#include "backends/cuda/program.h"
#include "hammock/host_tensor.h"

namespace hammock::cuda {

/// Shared by all tests of a process, so that kernels are compiled once.
inline std::shared_ptr<Machine> EmulatedForTests() {
  static auto& machine = *new std::shared_ptr<Machine>(MakeEmulatedMachine("g++"));
  return machine;
}

/// Sanitizers take a fibre's jump from stack to stack for an error; the compiler of a machine that
/// only emulates this processor makes code for its own. Empty where kernels can be run.
inline std::string WhyNotEmulated() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "kernels are not emulated under sanitizers";
#elif defined(HAMMOCK_CROSS_COMPILED)
  return "the compiler makes code for another processor";
#else
  return "";
#endif
}

inline void FillWithNonsense(Machine& machine, Address at, int64_t bytes) {
  std::vector<unsigned char> nonsense(static_cast<size_t>(bytes), 0xFF);
  machine.Upload(at, nonsense.data(), bytes);
}

inline Address TakeWithNonsense(Machine& machine, int64_t bytes) {
  Address at = machine.TakeMemory(std::max<int64_t>(bytes, 1));
  FillWithNonsense(machine, at, bytes);
  return at;
}

/// The results of the last of `runs`, all with the same memory: from the second on a CUDA graph
/// runs, on machines that have them.
inline std::vector<HostTensor> RunProgram(Machine& machine, const Program& program,
                                          const Graph& graph, const std::vector<HostTensor>& inputs,
                                          int runs = 1) {
  for (const SliceStart& start : program.starts()) {
    program.CheckStart(start, inputs[start.input].at(0).ToInt());
  }
  std::vector<Address> in, out;
  for (const HostTensor& input : inputs) {
    in.push_back(TakeWithNonsense(machine, input.bytes()));
    machine.Upload(in.back(), input.data(), input.bytes());
  }
  for (GraphValue output : graph.outputs()) {
    out.push_back(TakeWithNonsense(machine, graph.TypeOf(output).bytes()));
  }
  Address arena = TakeWithNonsense(machine, program.plan().arena_bytes);
  FaultWords faults(std::shared_ptr<Machine>(&machine, [](Machine*) {}));
  for (int run = 0; run < runs; ++run) {
    FillWithNonsense(machine, arena, program.plan().arena_bytes);
    for (size_t i = 0; i < out.size(); ++i) {
      FillWithNonsense(machine, out[i], graph.TypeOf(graph.outputs()[i]).bytes());
    }
    std::shared_ptr<const RunWords> words = faults.Take(program.fault_count());
    const bool fails = program.fault_count() > 0;
    program.Run(in, out, arena,
                {reinterpret_cast<Address>(words->faults), fails ? words->failed : 0});
    machine.Finish();
    program.CheckFaults(words->faults);
  }
  std::vector<HostTensor> results;
  for (size_t i = 0; i < out.size(); ++i) {
    const compiler::OutputSource& source = program.outputs()[i];
    Address from = source.input >= 0  ? in[source.input]
                   : source.same >= 0 ? out[source.same]
                                      : out[i];
    HostTensor result(graph.TypeOf(graph.outputs()[i]));
    machine.Download(result.mutable_data(), from, result.bytes(), nullptr);
    results.push_back(std::move(result));
  }
  for (Address at : in) machine.GiveMemory(at);
  for (Address at : out) machine.GiveMemory(at);
  machine.GiveMemory(arena);
  return results;
}

}  // namespace hammock::cuda
