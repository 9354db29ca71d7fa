#include "hammock/ir/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <unordered_set>
#include <vector>

namespace hammock {
namespace {

int Distance(Hash128 a, Hash128 b) {
  return std::popcount(a.lo ^ b.lo) + std::popcount(a.hi ^ b.hi);
}

TEST(Hash, IsTheSameInEveryRun) {
  // Stored keys depend on these values: a change must be deliberate.
  static_assert(HashOf(1) != HashOf(2));
  EXPECT_EQ(ToString(HashOf(0)), "311e7de104dcc3ffe1a30d230f71e023");
  EXPECT_EQ(ToString(HashString("hammock")), "b3c6c367c60f80472d9fa767d61d6da8");
}

TEST(Hash, OrderMatters) {
  Hash128 start = HashOf(7);
  EXPECT_NE(Combine(Combine(start, 1), 2), Combine(Combine(start, 2), 1));
  EXPECT_NE(Combine(HashOf(1), HashOf(2)), Combine(HashOf(2), HashOf(1)));
}

TEST(Hash, ConstantAndRunTimeEvaluationAgree) {
  constexpr Hash128 at_compile_time = HashString("a text of 21 letters.");
  std::string text = "a text of 21 letters.";
  EXPECT_EQ(HashString(text), at_compile_time);
  EXPECT_EQ(HashBytes(text.data(), text.size()), at_compile_time);
}

TEST(Hash, BytesOfDifferentLengthDiffer) {
  std::array<char, 64> zeros{};
  std::set<Hash128> seen;
  for (size_t n = 0; n <= zeros.size(); ++n) seen.insert(HashBytes(zeros.data(), n));
  EXPECT_EQ(seen.size(), zeros.size() + 1);
}

TEST(Hash, EveryInputBitChangesAboutHalfOfTheOutputBits) {
  double total = 0;
  int least = 128;
  int count = 0;
  for (uint64_t base = 0; base < 200; ++base) {
    for (int bit = 0; bit < 64; ++bit) {
      int d = Distance(HashOf(base), HashOf(base ^ (uint64_t{1} << bit)));
      total += d;
      least = std::min(least, d);
      ++count;
    }
  }
  EXPECT_NEAR(total / count, 64, 3);
  EXPECT_GE(least, 24);
}

TEST(Hash, SmallSequencesDoNotCollideEvenInHalfOfTheBits) {
  // What dims and attributes look like: short sequences of small numbers.
  std::unordered_set<uint64_t> lo;
  std::unordered_set<uint64_t> hi;
  std::vector<int> low_bits(256);
  size_t count = 0;
  for (uint64_t a = 0; a < 64; ++a) {
    for (uint64_t b = 0; b < 64; ++b) {
      for (uint64_t c = 0; c < 64; ++c) {
        Hash128 h = Combine(Combine(HashOf(a), b), c);
        lo.insert(h.lo);
        hi.insert(h.hi);
        ++low_bits[h.lo & 255];
        ++count;
      }
    }
  }
  EXPECT_EQ(lo.size(), count);
  EXPECT_EQ(hi.size(), count);
  auto [least, most] = std::minmax_element(low_bits.begin(), low_bits.end());
  EXPECT_GT(*least, 1024 * 0.8) << "buckets of a hash table are filled evenly";
  EXPECT_LT(*most, 1024 * 1.2);
}

TEST(Hash, PrintsHighHalfFirst) {
  EXPECT_EQ(ToString(Hash128{0x1, 0xabc}), "0000000000000abc0000000000000001");
}

}  // namespace
}  // namespace hammock
