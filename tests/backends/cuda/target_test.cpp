#include "backends/cuda/target.h"

#include <gtest/gtest.h>

#include "backends/cuda/calls/near_sizes.h"
#include "backends/cuda/driver/noting_machine.h"
#include "backends/cuda/emulated.h"
#include "hammock/ir/graph.h"

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
  // The one that numbers the rounds of a loop, which is another loop at each size.
  EXPECT_EQ(machine->texts, 2u);
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
