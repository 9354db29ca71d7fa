#include "backends/cuda/saved_artifact.h"

#include <gtest/gtest.h>

#include "backends/cuda/driver/noting_machine.h"
#include "backends/cuda/emulated.h"
#include "backends/cuda/target.h"
#include "hammock/ir/graph.h"
#include "hammock/metrics.h"
#include "ir/graph_sizes.h"

namespace hammock::cuda {
namespace {

/// Counts the texts that are compiled: all but those whose code was added.
class CodeMachine : public NotingMachine {
 public:
  using NotingMachine::NotingMachine;
  std::vector<std::shared_ptr<Function>> Load(std::span<const KernelSource> sources) override {
    for (const KernelSource& source : sources) compiled += !code_.contains(source.text);
    return NotingMachine::Load(sources);
  }
  std::map<std::string, std::string> SaveCode(std::span<const KernelSource> sources) override {
    std::map<std::string, std::string> code;
    for (const KernelSource& source : sources) code[source.text] = "code";
    return code;
  }
  void AddCode(std::map<std::string, std::string> code) override { code_.merge(code); }
  int compiled = 0;

 private:
  std::map<std::string, std::string> code_;
};

const Graph& Sample() {
  static const auto& graph = *new Graph(ParseGraph(R"(
    %0 = input : f32[12,40]
    %1 = exp %0 : f32[12,40]
    %2 = reduce_sum %1 {dims=[1], keepdim=false} : f32[12]
    %3:2 = sort %2 {dim=0, descending=false, stable=false} : f32[12], i64[12]
    %4 = sin %0 : f32[12,40]
    %5 = cos %3.0 : f32[12]
    %6:2 = loop %5, %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[12]
      %2 = input : f32[40]
      %3 = sin %1 : f32[12]
      return %3, %2
    }, count=12, num_carried=1, num_stacked_in=1} : f32[12], f32[12,40]
    %7 = gather %5, %3.1 {dim=0} : f32[12]
    return %1, %3.0, %3.1, %4, %6.0, %6.1, %7, %0)"));
  return graph;
}

std::vector<HostTensor> InputsOf(const Graph& graph) {
  std::vector<HostTensor> inputs;
  for (NodeId id : graph.inputs()) {
    std::vector<float> values;
    for (int64_t i = 0; i < graph[id].type().numel(); ++i) {
      values.push_back(static_cast<float>(i * 37 % 101) * 0.03f - 1);
    }
    inputs.push_back(HostTensor::From(values, graph[id].type().sizes()));
  }
  return inputs;
}

void ExpectSame(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].bytes(), b[i].bytes());
    EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), static_cast<size_t>(a[i].bytes())), 0) << i;
  }
}

lazy::Computation ComputationOf(const Graph& graph) {
  return {"saved", graph, lazy::getBackend("reference")->GetBackendDevice(0)};
}

int64_t SchedulesMade() { return metrics::CounterValue("cuda::SchedulesMade").value_or(0); }

TEST(CudaSavedArtifact, RunsAsItWasCompiledWithoutACompiler) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  const Graph& graph = Sample();
  auto first = std::make_shared<CodeMachine>(EmulatedForTests());
  Program program(graph, first);
  EXPECT_GT(first->compiled, 0);
  std::string bytes = SaveArtifact(program, *first);
  auto second = std::make_shared<CodeMachine>(EmulatedForTests());
  const int64_t before = SchedulesMade();
  std::shared_ptr<Program> loaded = LoadArtifact(ComputationOf(graph), bytes, second);
  EXPECT_EQ(second->compiled, 0);
  EXPECT_EQ(SchedulesMade(), before) << "the schedule of the loop's body is saved too";
  EXPECT_EQ(SaveArtifact(*loaded, *second), bytes) << "what was loaded can be saved again";
  EXPECT_EQ(loaded->ToText("schedule"), program.ToText("schedule")) << "steps, groups and memory";
  EXPECT_EQ(loaded->plan().offset, program.plan().offset);
  ExpectSame(RunProgram(*second, *loaded, graph, InputsOf(graph)),
             RunProgram(*first, program, graph, InputsOf(graph)));
}

TEST(CudaSavedArtifact, GeneralComputationsServeOtherSizes) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  Graph graph = ParseGraph(R"(graph(n=100)
    %0 = input : f32[n,64]
    %1 = exp %0 : f32[n,64]
    %2 = reduce_sum %1 {dims=[1], keepdim=false} : f32[n]
    return %1, %2)");
  auto first = std::make_shared<CodeMachine>(EmulatedForTests());
  auto by_size = std::make_shared<ProgramsBySize<Target>>(graph, DerivedSizes(), Target{first});
  std::shared_ptr<Program> program = by_size->At({100});
  program->by_size = by_size;
  std::string bytes = SaveArtifact(*program, *first);
  auto second = std::make_shared<CodeMachine>(EmulatedForTests());
  std::shared_ptr<Program> loaded = LoadArtifact(ComputationOf(graph), bytes, second);
  auto scheduled = [] { return metrics::CounterValue("cuda::SizesScheduled").value_or(0); };
  const int64_t before = scheduled();
  for (int64_t n : {100, 101, 130}) {
    Graph at = AtSizes(graph, {n});
    ExpectSame(RunProgram(*second, *loaded->by_size->At({n}), at, InputsOf(at)),
               RunProgram(*first, *by_size->At({n}), at, InputsOf(at)));
  }
  EXPECT_EQ(second->compiled, 0);
  EXPECT_EQ(scheduled(), before);
}

TEST(CudaSavedArtifact, BodiesInBodiesNoteFaults) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  Graph graph = ParseGraph(R"(
    %0 = input : f32[6]
    %1 = input : i64[5,6]
    %2:2 = loop %0, %1 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[6]
      %2 = input : i64[6]
      %3 = loop %1 {body=graph {
        %0 = input : i64[]
        %1 = input : f32[6]
        %2 = sin %1 : f32[6]
        return %2
      }, count=2, num_carried=1, num_stacked_in=0} : f32[6]
      %4 = gather %3, %2 {dim=0} : f32[6]
      %5 = exp %4 : f32[6]
      return %4, %5
    }, count=5, num_carried=1, num_stacked_in=1} : f32[6], f32[5,6]
    return %2.0, %2.1)");
  auto machine = std::make_shared<CodeMachine>(EmulatedForTests());
  Program program(graph, machine);
  std::string bytes = SaveArtifact(program, *machine);
  const int64_t before = SchedulesMade();
  std::shared_ptr<Program> loaded = LoadArtifact(ComputationOf(graph), bytes, machine);
  EXPECT_EQ(SchedulesMade(), before);
  std::vector<int64_t> indices(30);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i * 5 % 6);
  auto run = [&](const Program& of) {
    HostTensor x = HostTensor::From(std::vector<float>{1, -2, 3, -4, 5, -6}, {6});
    return RunProgram(*machine, of, graph, {x, HostTensor::From(indices, {5, 6})});
  };
  ExpectSame(run(*loaded), run(program));
  indices[17] = 6;
  EXPECT_THROW(run(program), lazy::ExecutionError);
  EXPECT_THROW(run(*loaded), lazy::ExecutionError);
}

TEST(CudaSavedArtifact, BodiesOfGeneralComputationsAreSaved) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  Graph graph = ParseGraph(R"(graph(n=100)
    %0 = input : f32[n,64]
    %1 = input : f32[8]
    %2 = exp %0 : f32[n,64]
    %3 = loop %1 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[8]
      %2 = sin %1 : f32[8]
      return %2
    }, count=3, num_carried=1, num_stacked_in=0} : f32[8]
    return %2, %3)");
  auto machine = std::make_shared<CodeMachine>(EmulatedForTests());
  auto by_size = std::make_shared<ProgramsBySize<Target>>(graph, DerivedSizes(), Target{machine});
  std::shared_ptr<Program> program = by_size->At({100});
  program->by_size = by_size;
  std::string bytes = SaveArtifact(*program, *machine);
  const int64_t before = SchedulesMade();
  std::shared_ptr<Program> loaded = LoadArtifact(ComputationOf(graph), bytes, machine);
  Graph at = AtSizes(graph, {130});
  ExpectSame(RunProgram(*machine, *loaded->by_size->At({130}), at, InputsOf(at)),
             RunProgram(*machine, *by_size->At({130}), at, InputsOf(at)));
  EXPECT_EQ(SchedulesMade(), before);
}

}  // namespace
}  // namespace hammock::cuda
