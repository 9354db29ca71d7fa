#pragma once
/// Runs graphs of one call or kernel on a GPU, or emulated where there is none, against the
/// interpreter.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "backends/cuda/device/device_text.h"
#include "backends/cuda/driver/gpu_machine.h"
#include "backends/cuda/driver/nvrtc.h"
#include "backends/cuda/emulated.h"
#include "backends/reference/interpreter.h"
#include "fuzz/bounds.h"
#include "fuzz/case.h"
#include "hammock/config.h"

namespace hammock::cuda {

inline std::shared_ptr<Machine> MachineForTests() {
  static auto& machine =
      *new std::shared_ptr<Machine>(WhyNoGpu().empty() ? MakeGpuMachine(0) : EmulatedForTests());
  return machine;
}

class CudaKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoGpu().empty() && !WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  }
};

inline void ExpectCompiledByNvrtc(const std::vector<std::unique_ptr<Program>>& programs) {
  if (!WhyNoNvrtc().empty()) return;
  std::map<std::string, std::string> texts;
  for (const auto& program : programs) {
    for (const KernelSource& source : program->Sources()) {
      EXPECT_NE(source.text.find("  wait_for_earlier_kernels();"), std::string::npos)
          << source.text;  // Note [Early launches]
      texts[source.name] = source.text;
    }
  }
  std::string module = Prelude();
  for (const auto& [name, text] : texts) module += text;
  EXPECT_NO_THROW(CompileByNvrtc(module, 90));
}

/// All graphs are prepared first, so that their kernels are compiled together.
inline void ExpectRight(const std::vector<std::string>& texts) {
  std::shared_ptr<Machine> machine = MachineForTests();
  std::vector<Graph> graphs;
  std::vector<std::unique_ptr<Program>> programs;
  for (const std::string& text : texts) {
    graphs.push_back(ParseGraph(text));
    programs.push_back(std::make_unique<Program>(graphs.back(), machine));
  }
  ExpectCompiledByNvrtc(programs);
  for (size_t i = 0; i < graphs.size(); ++i) {
    std::vector<HostTensor> inputs = fuzz::RandomInputs(graphs[i], i + 1);
    std::vector<HostTensor> actual = RunProgram(*machine, *programs[i], graphs[i], inputs);
    std::vector<HostTensor> expected = reference::Interpret(graphs[i], inputs);
    EXPECT_EQ(fuzz::CompareNode(graphs[i], inputs, actual, expected), "") << texts[i];
  }
}

/// Exact ops, so the bits of the interpreter's.
inline void ExpectBits(const std::string& text, const std::vector<HostTensor>& given = {}) {
  Graph graph = ParseGraph(text);
  std::vector<HostTensor> inputs = given.empty() ? fuzz::RandomInputs(graph, 3) : given;
  Program program(graph, MachineForTests());
  std::vector<HostTensor> actual = RunProgram(*MachineForTests(), program, graph, inputs);
  std::vector<HostTensor> expected = reference::Interpret(graph, inputs);
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(fuzz::CompareBits(actual[i], expected[i]), "") << text;
  }
}

}  // namespace hammock::cuda
