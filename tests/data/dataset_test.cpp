#include "hammock/data/dataset.h"

#include <gtest/gtest.h>

#include <set>

#include "support/tensor_matchers.h"

namespace hammock::data {
namespace {

std::shared_ptr<const Dataset> Numbers(int64_t count, int64_t first = 0) {
  std::vector<float> pairs;
  std::vector<int64_t> labels;
  for (int64_t i = first; i < first + count; ++i) {
    pairs.push_back(static_cast<float>(i));
    pairs.push_back(static_cast<float>(-i));
    labels.push_back(i);
  }
  return std::make_shared<ArrayDataset>(std::vector<HostTensor>{HostTensor::From(pairs, {count, 2}),
                                                                HostTensor::From(labels, {count})});
}

TEST(ArrayDataset, GivesExamplesAndBatches) {
  auto numbers = Numbers(5);
  EXPECT_EQ(numbers->size(), 5);
  Example third = numbers->get(3);
  EXPECT_EQ(third[0].shape().to_string(), "f32[2]");
  EXPECT_EQ(third[0].at(1).ToDouble(), -3);
  EXPECT_EQ(third[1].at(0).ToInt(), 3);
  std::vector<int64_t> chosen = {4, 0, 4};
  Example batch = numbers->batch(chosen);
  EXPECT_EQ(batch[0].shape().to_string(), "f32[3,2]");
  EXPECT_EQ(batch[1].at(2).ToInt(), 4);
  // The same as from the examples one by one.
  Example stacked = numbers->Dataset::batch(chosen);
  EXPECT_TRUE(batch[0].SameBits(stacked[0]));
  EXPECT_TRUE(batch[1].SameBits(stacked[1]));
}

TEST(ArrayDataset, AnExampleOutlivesItsDataset) {
  Example example;
  {
    auto numbers = Numbers(3);
    example = numbers->get(2);
  }
  EXPECT_EQ(example[1].at(0).ToInt(), 2);
}

TEST(Datasets, RefuseWhatDoesNotFit) {
  HostTensor three(Shape(DType::kF32, {3})), four(Shape(DType::kF32, {4, 2}));
  EXPECT_THROW_MESSAGE(ArrayDataset({}), ValueError, "no arrays");
  EXPECT_THROW_MESSAGE(ArrayDataset({three, four}), ValueError,
                       "f32[3] and f32[4,2] have different");
  EXPECT_THROW_MESSAGE(ArrayDataset({HostTensor::From(Scalar(1))}), ValueError,
                       "needs a first dim");
  EXPECT_THROW_MESSAGE(Numbers(3)->get(3), ValueError, "example 3 of 3");
  EXPECT_THROW_MESSAGE(Subset(Numbers(3), {0, -1}), ValueError, "example -1 of 3");
  std::vector<Example> different = {{three}, {four}};
  EXPECT_THROW_MESSAGE(Stacked(different), ValueError,
                       "part 0 is f32[3]; number 1 has 1, f32[4,2]");
}

TEST(Datasets, AreMadeOfDatasets) {
  ConcatDataset both({Numbers(2), Numbers(0), Numbers(3, 10)});
  EXPECT_EQ(both.size(), 5);
  EXPECT_EQ(both.get(1)[1].at(0).ToInt(), 1);
  EXPECT_EQ(both.get(2)[1].at(0).ToInt(), 10);
  MapDataset doubled(Numbers(3), [](Example example) {
    float value = example[0].values<float>()[0];
    return Example{HostTensor::From(std::vector<float>{2 * value}, {1})};
  });
  EXPECT_EQ(doubled.get(2)[0].at(0).ToDouble(), 4);
  auto parts = RandomSplit(Numbers(10), {7, 3}, 1);
  std::set<int64_t> seen;
  for (const auto& part : parts) {
    for (int64_t i = 0; i < part->size(); ++i) seen.insert(part->get(i)[1].at(0).ToInt());
  }
  EXPECT_EQ(parts[0]->size(), 7);
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_THROW_MESSAGE(RandomSplit(Numbers(10), {7, 4}, 1), ValueError,
                       "the parts have 11 examples");
}

}  // namespace
}  // namespace hammock::data
