// When CUDA graphs are captured or updated, and in which order their parts may run.
#include "backends/cuda/driver/cuda_graph_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backends/cuda/command_order.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/driver/noting_machine.h"
#include "backends/cuda/emulated.h"
#include "backends/reference/interpreter.h"
#include "hammock/hammock.h"

namespace hammock::cuda {
namespace {

TEST(OrderByMemory, StepsComeAfterWhatTheyReadAndBeforeWhatOverwritesIt) {
  EXPECT_EQ(OrderByMemory({{{}, {{0, 64}}},              // 0 writes a
                           {{}, {{64, 64}}},             // 1 writes b
                           {{{0, 64}}, {{128, 64}}},     // 2 reads a
                           {{{64, 64}}, {{192, 64}}},    // 3 reads b
                           {{{128, 64}}, {{0, 32}}},     // 4 overwrites half of a
                           {{{32, 8}, {192, 8}}, {}}}),  // 5 reads the other half, and what 3 wrote
            (CommandOrder{{}, {}, {0}, {1}, {2}, {0, 3}}));
}

TEST(OrderByMemory, WhatFollowsFromOthersIsLeftOut) {
  EXPECT_EQ(OrderByMemory({{{}, {{0, 64}}},
                           {{{0, 64}}, {{64, 64}}},
                           {{{0, 64}, {64, 64}}, {{128, 64}}},
                           {{}, {{0, 192}}}}),
            (CommandOrder{{}, {0}, {1}, {2}}));
}

TEST(OrderByMemory, AStepMayReadAndWriteTheSamePlace) {
  EXPECT_EQ(OrderByMemory({{{{0, 64}}, {{0, 64}}}, {{{0, 8}}, {{0, 8}}}, {{{8, 8}}, {}}}),
            (CommandOrder{{}, {0}, {0}}));
}

TEST(OrderByMemory, RangesMayOverlapInAnyWay) {
  EXPECT_EQ(OrderByMemory({{{}, {{100, 10}}},
                           {{}, {{120, 10}}},
                           {{{90, 100}}, {}},  // both and the gaps around them
                           {{}, {{112, 4}}},   // in the gap
                           {{}, {{0, 1000}}}}),
            (CommandOrder{{}, {}, {0, 1}, {2}, {3}}));
}

/// Two chains and what joins them.
constexpr const char* kChains = R"(
    %0 = input : f32[16,16]
    %1 = input : f32[16,16]
    %2 = dot_general %0, %0 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[16,16]
    %3 = dot_general %2, %0 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[16,16]
    %4 = dot_general %1, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[16,16]
    %5 = dot_general %4, %1 {a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]} : f32[16,16]
    %6 = sub %3, %5 : f32[16,16]
    return %6)";

std::vector<HostTensor> SomeInputs(const Graph& graph) {
  std::vector<HostTensor> inputs;
  for (NodeId id : graph.inputs()) {
    HostTensor input(graph[id].type());
    float* values = static_cast<float*>(input.mutable_data());
    for (int64_t i = 0; i < graph[id].type().numel(); ++i) {
      values[i] = static_cast<float>((i * 37 + id.number() * 11) % 7);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

TEST(CudaGraphs, IndependentStepsAreConcurrent) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  auto machine = std::make_shared<NotingMachine>(EmulatedForTests());
  Graph graph = ParseGraph(kChains);
  Program program(graph, machine);
  std::vector<HostTensor> inputs = SomeInputs(graph);
  std::vector<HostTensor> results = RunProgram(*machine, program, graph, inputs, 5);
  EXPECT_EQ(machine->captured, 1);
  EXPECT_EQ(machine->replayed, 2);
  std::vector<HostTensor> expected = reference::Interpret(graph, inputs);
  EXPECT_EQ(
      std::memcmp(results[0].data(), expected[0].data(), static_cast<size_t>(expected[0].bytes())),
      0);
  EXPECT_EQ(machine->last_order, (std::vector<int>{2, 3, 0, 1, 4})) << program.ToText("schedule");
}

TEST(CudaGraphs, DonatedMemoryIsWrittenAfterItWasRead) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  auto machine = std::make_shared<NotingMachine>(EmulatedForTests());
  // The sum is no operand of the matmul, but overwrites one.
  Graph graph = ParseGraph(R"(
    %0 = input : f32[64,64]
    %1 = permute %0 {dims=[1,0]} : f32[64,64]
    %2 = input : f32[64,64]
    %3 = permute %2 {dims=[1,0]} : f32[64,64]
    %4 = add %0, %3 : f32[64,64]
    return %1, %4)");
  Program program(graph, machine);
  ASSERT_EQ(program.donations(false).Match({true, true}), (std::vector<int>{-1, 0}))
      << program.ToText("schedule");
  const int64_t bytes = 64 * 64 * 4;
  std::vector<HostTensor> inputs = SomeInputs(graph);
  std::vector<HostTensor> expected = reference::Interpret(graph, inputs);
  Address a = machine->TakeMemory(bytes), b = machine->TakeMemory(bytes);
  Address out = machine->TakeMemory(bytes), arena = machine->TakeMemory(program.plan().arena_bytes);
  for (int run = 0; run < 5; ++run) {
    machine->Upload(a, inputs[0].data(), bytes);
    machine->Upload(b, inputs[1].data(), bytes);
    program.Run(std::vector<Address>{a, b}, std::vector<Address>{out, a}, arena, {});
    HostTensor transposed(graph.TypeOf(graph.outputs()[0])), sum(graph.TypeOf(graph.outputs()[1]));
    machine->Download(transposed.mutable_data(), out, bytes, nullptr);
    machine->Download(sum.mutable_data(), a, bytes, nullptr);
    EXPECT_EQ(std::memcmp(transposed.data(), expected[0].data(), static_cast<size_t>(bytes)), 0);
    EXPECT_EQ(std::memcmp(sum.data(), expected[1].data(), static_cast<size_t>(bytes)), 0);
  }
  for (Address at : {a, b, out, arena}) machine->GiveMemory(at);
  EXPECT_EQ(machine->replayed, 2);
}

TEST(CudaGraphs, KernelsThatCountTheirBlocksRunOneAfterAnother) {
  auto machine = std::make_shared<NotingMachine>(MakeEmulatedMachine("none"));
  Graph graph = ParseGraph(R"(
    %0 = input : f32[100000,64]
    %1 = input : f32[100000,32]
    %2 = reduce_sum %0 {dims=[0], keepdim=false} : f32[64]
    %3 = reduce_sum %1 {dims=[0], keepdim=false} : f32[32]
    return %2, %3)");
  Program program(graph, machine);
  std::string text = program.ToText("cuda");
  ASSERT_NE(text.find("arrived"), std::string::npos) << text;
  RunProgram(*machine, program, graph, SomeInputs(graph), 4);
  std::vector<int> sorted = machine->last_order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(machine->last_order, sorted);
  EXPECT_GT(sorted.size(), 1u);
}

class GraphCacheTest : public testing::Test {
 protected:
  /// Expects that it is done, plainly or by a CUDA graph of these addresses.
  void Run(Address address) {
    auto clear = [this, address] { machine_.Clear(At(address), 1); };
    auto plain = [&] {
      clear();
      ++plain_;
    };
    graphs_.Run(machine_, {address}, {plain, [&] { return std::vector<Piece>{{clear, {}}}; }});
    EXPECT_EQ(memory_[address], 0) << address;
    memory_[address] = 1;
  }
  Address At(Address address) { return reinterpret_cast<Address>(&memory_[address]); }

  NotingMachine machine_{MakeEmulatedMachine("none")};
  CudaGraphCache graphs_;
  std::vector<char> memory_ = std::vector<char>(1000, 1);
  int plain_ = 0;
};

TEST_F(GraphCacheTest, AddressesThatComeOftenAreCaptured) {
  for (int round = 0; round < 7; ++round) {
    for (Address address = 0; address < 8; ++address) Run(address);
  }
  EXPECT_EQ(plain_, 3 * 8);
  EXPECT_EQ(machine_.captured, 8);
  EXPECT_EQ(machine_.replayed, 4 * 8);
  EXPECT_EQ(machine_.updated, 0);
}

TEST_F(GraphCacheTest, AddressesThatNeverComeAgainUpdateOneGraph) {
  for (Address address = 0; address < 100; ++address) Run(address);
  EXPECT_EQ(plain_, 8);
  EXPECT_EQ(machine_.captured, 1);
  EXPECT_EQ(machine_.updated, 100 - 9);
}

TEST_F(GraphCacheTest, OthersThatComeAgainKeepTheirs) {
  for (Address address = 0; address < 100; ++address) {
    Run(500);
    Run(501);
    Run(address);
  }
  // Both, and one for all others.
  EXPECT_EQ(machine_.captured, 3);
  EXPECT_GT(machine_.updated, 80);
}

TEST_F(GraphCacheTest, GraphsThatCannotBeUpdatedAreCapturedAnew) {
  machine_.can_update = false;
  for (Address address = 0; address < 30; ++address) Run(address);
  EXPECT_EQ(machine_.captured, 30 - 8);
}

TEST(VaryingNumbers, HaveSlotsOnceTheyChange) {
  VaryingNumbers numbers;
  std::vector<VaryingNumbers::Number> run = {{0, {std::byte{1}}}, {3, {std::byte{2}}}};
  EXPECT_EQ(numbers.AssignSlots(run), 0);
  EXPECT_EQ(numbers.AssignSlots(run), 0);
  run[1].value[0] = std::byte{3};
  EXPECT_EQ(numbers.AssignSlots(run), 1);
  EXPECT_EQ(run[0].slot, -1);
  EXPECT_EQ(run[1].slot, 0);
  run[0].value[0] = std::byte{3};
  EXPECT_EQ(numbers.AssignSlots(run), 2);
  EXPECT_EQ(run[0].slot, 1);
  EXPECT_EQ(run[1].slot, 0) << "it keeps its slot";
}

/// A loop with a counter soon comes back to the same addresses.
TEST(VaryingNumbers, ALoopWithACounterReplaysOneGraph) {
  if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  auto machine = std::make_shared<NotingMachine>(EmulatedForTests());
  lazy::RegisterBackend(MakeBackend({machine}, "noting", 107).release());
  const Device device("noting:0");
  Tensor line = zeros({64}, f32, device), sums = zeros({64}, f32, device);
  constexpr int kSteps = 40;
  for (int i = 0; i < kSteps; ++i) {
    step([&] {
      line.narrow(0, i, 1).fill_(i);
      sums += line * i;
    });
  }
  std::vector<float> expected(64);
  for (int i = 0; i < kSteps; ++i) {
    for (int k = 0; k <= i; ++k) expected[k] += static_cast<float>(i * k);
  }
  EXPECT_EQ(sums.to_vector<float>(), expected);
  EXPECT_LE(machine->captured + machine->updated, 8);
  EXPECT_GE(machine->replayed, kSteps - 16);
}

}  // namespace
}  // namespace hammock::cuda
