#include "backends/cuda/target.h"

#include <gtest/gtest.h>

#include "backends/cuda/driver/near_sizes.h"
#include "backends/cuda/driver/noting_machine.h"
#include "backends/cuda/emulated.h"
#include "hammock/ir/graph.h"
#include "ir/graph_sizes.h"

namespace hammock::cuda {
namespace {

/// Counts the texts that it is given.
class CountingMachine : public NotingMachine {
 public:
  using NotingMachine::NotingMachine;
  std::vector<std::shared_ptr<Function>> Load(std::span<const KernelSource> sources) override {
    texts += sources.size();
    return NotingMachine::Load(sources);
  }
  size_t texts = 0;
};

TEST(ProgramsBySize, TextsAreWrittenOnce) {
  auto machine = std::make_shared<CountingMachine>(MakeEmulatedMachine("none"));
  ProgramsBySize<Target> programs(
      ParseGraph("graph(n=100)\n"
                 "%0 = input : f32[n,64]\n"
                 "%1 = input : f32[40]\n"
                 "%2 = exp %0 : f32[n,64]\n"
                 "%3 = exp %1 : f32[40]\n"
                 "%4 = reduce_sum %2 {dims=[1], keepdim=false} : f32[n]\n"
                 "%5:2 = sort %3 {dim=0, descending=false} : f32[40], i64[40]\n"
                 "%6:2 = loop %3, %2 {body=graph {\n"
                 "  %0 = input : i64[]\n"
                 "  %1 = input : f32[40]\n"
                 "  %2 = input : f32[64]\n"
                 "  %3 = sin %1 : f32[40]\n"
                 "  return %3, %2\n"
                 "}, count=n, num_carried=1, num_stacked_in=1} : f32[40], "
                 "f32[n,64]\n"
                 "return %2, %4, %5.0, %6.0, %6.1\n"),
      {}, Target{machine});
  programs.At({100});
  EXPECT_GT(machine->texts, 0u);
  machine->texts = 0;
  programs.At({101});
  programs.At({103});
  // The one that numbers the iterations of a loop, which is another loop at each size.
  EXPECT_EQ(machine->texts, 2u);
}

/// A training step in small: a matmul, indices that can be wrong, small kernels that share a
/// launch.
Graph SmallStep() {
  return ParseGraph(
      "graph(n=40)\n"
      "%0 = input : f32[n,40]\n"
      "%1 = input : f32[40,40]\n"
      "%2 = input : i64[n,1]\n"
      "%3 = input : f32[40]\n"
      "%4 = dot_general %0, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : "
      "f32[n,40]\n"
      "%5 = gather %4, %2 {dim=1} : f32[n,1]\n"
      "%6 = exp %5 : f32[n,1]\n"
      "%7 = reduce_sum %4 {dims=[0], keepdim=false} : f32[40]\n"
      "%8 = mul %3, %7 : f32[40]\n"
      "%9 = exp %4 : f32[n,40]\n"
      "%10 = sin %1 : f32[40,40]\n"
      "%11 = cos %3 : f32[40]\n"
      "return %6, %8, %9, %10, %11\n");
}

HostTensor ValuesOf(const Shape& type) {
  HostTensor values(Shape(f32, type.sizes()));
  auto* data = static_cast<float*>(values.mutable_data());
  for (int64_t i = 0; i < type.numel(); ++i) data[i] = static_cast<float>(i * 7 % 40);
  return values.To(type.dtype());
}

TEST(ProgramsBySize, ComputeTheSameAsAProgramOfOneSize) {
  if (std::string why = WhyNotEmulated(); !why.empty()) GTEST_SKIP() << why;
  const Graph general = SmallStep();
  ProgramsBySize<Target> programs(general, {}, Target{EmulatedForTests()});
  for (int64_t n : {40, 41, 7, 200}) {
    const Graph graph = AtSizes(general, {n});
    std::vector<HostTensor> inputs;
    for (NodeId id : graph.inputs()) inputs.push_back(ValuesOf(graph[id].type()));
    const Program alone(graph, EmulatedForTests());
    std::vector<HostTensor> expected = RunProgram(*EmulatedForTests(), alone, graph, inputs);
    std::vector<HostTensor> found =
        RunProgram(*EmulatedForTests(), *programs.At({n}), graph, inputs);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(found[i].SameBits(expected[i])) << "output " << i << " of n=" << n;
    }
  }
}

TEST(ProgramsBySize, ShareAnArrangement) {
  ProgramsBySize<Target> programs(SmallStep(), {}, Target{MakeEmulatedMachine("none")});
  auto first = programs.At({40}), second = programs.At({41});
  EXPECT_EQ(&first->donations(true), &second->donations(true));
  EXPECT_LT(second->bytes(), first->bytes() * 2);
  EXPECT_NE(first->plan().arena_bytes, second->plan().arena_bytes);
  EXPECT_NE(second->ToText("schedule").find("f32[41,40]"), std::string::npos);
}

TEST(ProgramsBySize, DonateWhereSizesAreAlwaysEqual) {
  ProgramsBySize<Target> programs(SmallStep(), {}, Target{MakeEmulatedMachine("none")});
  for (int64_t n : {40, 41}) {
    // f32[n,40] may take the memory of f32[n,40], not that of f32[40,40], which is as large at 40.
    const std::vector<int> taken =
        programs.At({n})->donations(false).Match({true, true, true, true});
    EXPECT_NE(taken[2], 1) << n;
    EXPECT_EQ(taken[3], 1) << n;
    EXPECT_TRUE(taken[1] == 3 || taken[4] == 3) << n;
  }
}

TEST(NearSize, IsTheNextOneWithFourLeadingBits) {
  for (int64_t size : {0, 1, 7, 15, 16, 224, 1024, 12288}) EXPECT_EQ(NearSize(size), size);
  EXPECT_EQ(NearSize(17), 18);
  EXPECT_EQ(NearSize(31), 32);
  EXPECT_EQ(NearSize(33), 36);
  EXPECT_EQ(NearSize(1000), 1024);
  EXPECT_EQ(NearSize(1025), 1152);
  for (int64_t size = 1; size < 5000; ++size) {
    EXPECT_GE(NearSize(size), size);
    EXPECT_LE(NearSize(size) - size, size / 8);
    EXPECT_EQ(NearSize(NearSize(size)), NearSize(size));
  }
}

}  // namespace
}  // namespace hammock::cuda
