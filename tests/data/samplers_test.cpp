#include "hammock/data/samplers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/tensor_matchers.h"

namespace hammock::data {
namespace {

using Order = std::vector<int64_t>;

TEST(Samplers, AnOrderIsDecidedBySeedAndEpoch) {
  RandomSampler sampler(7);
  Order first = sampler.Order(100, 0);
  EXPECT_EQ(first, RandomSampler(7).Order(100, 0));
  EXPECT_NE(first, sampler.Order(100, 1));
  EXPECT_NE(first, RandomSampler(8).Order(100, 0));
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, SequentialSampler().Order(100, 0));
  // For ever: a run that is resumed by another version reads on in the same order.
  EXPECT_EQ(RandomSampler(1).Order(6, 0), (Order{0, 3, 5, 1, 2, 4}));
}

TEST(Samplers, ShufflesAreEven) {
  int counts[4][4] = {};
  for (int epoch = 0; epoch < 4000; ++epoch) {
    Order order = RandomSampler(3).Order(4, epoch);
    for (int place = 0; place < 4; ++place) ++counts[place][order[place]];
  }
  for (auto& place : counts) {
    for (int count : place) EXPECT_NEAR(count, 1000, 150);
  }
}

TEST(WeightedRandomSampler, DrawsByWeight) {
  Order drawn = WeightedRandomSampler({1, 0, 3}, 4000, true, 5).Order(3, 0);
  EXPECT_NEAR(std::count(drawn.begin(), drawn.end(), 0), 1000, 150);
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), 1), 0);
  int first = 0;
  for (int epoch = 0; epoch < 2000; ++epoch) {
    Order both = WeightedRandomSampler({1, 0, 3}, 2, false, 5).Order(3, epoch);
    EXPECT_EQ((std::set<int64_t>(both.begin(), both.end())), (std::set<int64_t>{0, 2}));
    first += both[0] == 0;
  }
  EXPECT_NEAR(first, 500, 100);
  EXPECT_THROW_MESSAGE(WeightedRandomSampler({1, 0, 3}, 3, false, 5), ValueError,
                       "2 have a weight above 0");
  EXPECT_THROW_MESSAGE(WeightedRandomSampler({1, -1}, 1, true, 5), ValueError, "a weight is -1");
}

TEST(DistributedSampler, SharesAreDisjointAndEquallyLong) {
  std::multiset<int64_t> seen;
  for (int rank = 0; rank < 3; ++rank) {
    Order share = DistributedSampler(rank, 3, true, 9).Order(10, 4);
    EXPECT_EQ(share.size(), 4u);
    seen.insert(share.begin(), share.end());
  }
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 10u);
  EXPECT_EQ(DistributedSampler(1, 3, false, 0).Order(10, 0), (Order{1, 4, 7, 0}));
  EXPECT_THROW_MESSAGE(DistributedSampler(3, 3, true, 9), ValueError, "rank 3 of 3");
}

TEST(DistributedSampler, DealsPartsOfBatches) {
  EXPECT_EQ(DistributedSampler(0, 2, false, 0, 2).Order(11, 0), (Order{0, 1, 4, 5, 8, 9}));
  EXPECT_EQ(DistributedSampler(1, 2, false, 0, 2).Order(11, 0), (Order{2, 3, 6, 7, 10, 0}));
  // The last batch is smaller.
  EXPECT_EQ(DistributedSampler(0, 2, false, 0, 4).Order(10, 0), (Order{0, 1, 2, 3, 8}));
  EXPECT_EQ(DistributedSampler(1, 2, false, 0, 4).Order(10, 0), (Order{4, 5, 6, 7, 9}));
  EXPECT_EQ(DistributedSampler(0, 1, true, 9, 4).Order(10, 3), RandomSampler(9).Order(10, 3));
  EXPECT_THROW_MESSAGE(DistributedSampler(0, 1, true, 9, 0), ValueError, "batch is 0");
}

TEST(SubsetRandomSampler, StaysInItsSubset) {
  Order order = SubsetRandomSampler({5, 9, 2}, 1).Order(100, 0);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, (Order{2, 5, 9}));
}

}  // namespace
}  // namespace hammock::data
