#include "backends/run_graph.h"
#include "ops/random/philox.h"

namespace hammock {
namespace {

// The known answers that the authors of Philox publish with Random123 (kat_vectors).
TEST(Philox, GivesThePublishedWords) {
  EXPECT_EQ(philox::Philox4x32({0, 0, 0, 0}, {0, 0}),
            (philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox::Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox::Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                               {0xa4093822, 0x299f31d0}),
            (philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, StreamsCountBlocksFromTheirOffset) {
  EXPECT_EQ(philox::StreamWord(0, 0, 2), 0xbc57ac4cu);
  for (uint64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(philox::StreamWord(7, 5, i + 4), philox::StreamWord(7, 6, i));
  }
  EXPECT_NE(philox::StreamWord(7, 0, 0), philox::StreamWord(uint64_t{7} << 32, 0, 0));
  EXPECT_EQ(philox::BlocksFor(0), 0u);
  EXPECT_EQ(philox::BlocksFor(1), 1u);
  EXPECT_EQ(philox::BlocksFor(8), 2u);
  EXPECT_EQ(philox::BlocksFor(9), 3u);
}

TEST(RngBits, AreTheWordsOfTheStream) {
  HostTensor state = HostTensor::From(std::vector<uint64_t>{0x123456789, 41}, {2});
  HostTensor out = RunText(R"(
    %0 = input : u64[2]
    %1 = rng_bits %0 {sizes=[2,3]} : u32[2,3]
    return %1)",
                           {state});
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(out.values<uint32_t>()[i], philox::StreamWord(0x123456789, 41, i));
  }
}

TEST(RngBits, OfNoElementsAreNone) {
  HostTensor out = RunText(R"(
    %0 = input : u64[2]
    %1 = rng_bits %0 {sizes=[0]} : u32[0]
    return %1)",
                           {HostTensor::From(std::vector<uint64_t>{1, 2}, {2})});
  EXPECT_EQ(out.numel(), 0);
}

TEST(Iota, CountsInItsDType) {
  EXPECT_TENSOR(RunText("%0 = iota {size=4, dtype=f16} : f16[4]\nreturn %0", {}),
                Make(f16, {0, 1, 2, 3}));
  EXPECT_TENSOR(RunText("%0 = iota {size=0, dtype=i64} : i64[0]\nreturn %0", {}), Make(i64, {}));
}

TEST(Constant, IsRoundedToItsDType) {
  EXPECT_TENSOR(RunText("%0 = constant {value=0.1, dtype=f32} : f32[]\nreturn %0", {}),
                Make(f32, {}, {0.1f}));
  EXPECT_TENSOR(RunText("%0 = constant {value=300, dtype=u8} : u8[]\nreturn %0", {}),
                Make(u8, {}, {44}));
}

}  // namespace
}  // namespace hammock
