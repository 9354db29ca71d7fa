#include "hammock/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock::data {
namespace {

/// 0, 1, 2, ...; example 7 of a broken one cannot be read.
class Counting : public Dataset {
 public:
  explicit Counting(int64_t size, bool broken = false) : size_(size), broken_(broken) {}
  int64_t size() const override { return size_; }
  Example get(int64_t index) const override {
    ++*read_;
    if (broken_ && index == 7) throw std::runtime_error("example 7 is gone");
    return {HostTensor::From(std::vector<float>{static_cast<float>(index)}, {1})};
  }
  std::shared_ptr<std::atomic<int>> read() const { return read_; }

 private:
  int64_t size_;
  bool broken_;
  std::shared_ptr<std::atomic<int>> read_ = std::make_shared<std::atomic<int>>(0);
};

std::vector<float> All(DataLoader& loader) {
  std::vector<float> all;
  for (const Batch& batch : loader) {
    for (float value : batch[0].to_vector<float>()) all.push_back(value);
  }
  return all;
}

TEST(DataLoader, BatchesComeInOrderWhateverTheWorkers) {
  std::vector<float> expected;
  for (int workers : {0, 1, 4}) {
    DataLoader loader(Counting(53),
                      {.batch_size = 8, .shuffle = true, .seed = 3, .workers = workers});
    EXPECT_EQ(loader.size(), 7);
    std::vector<float> first = All(loader), second = All(loader);
    EXPECT_EQ(first.size(), 53u);
    EXPECT_NE(first, second);
    if (workers == 0) expected = first;
    EXPECT_EQ(first, expected);
    loader.set_epoch(1);
    EXPECT_EQ(All(loader), second);
  }
}

TEST(DataLoader, LastBatchesAreSmallerOrLeftOut) {
  DataLoader loader(Counting(10), {.batch_size = 4});
  std::vector<int64_t> sizes;
  for (const Batch& batch : loader) sizes.push_back(batch[0].size(0));
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 4, 2}));
  DataLoader even(Counting(10), {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(even.size(), 2);
  EXPECT_EQ(All(even).size(), 8u);
  DataLoader none(Counting(0), {.batch_size = 4, .workers = 2});
  EXPECT_TRUE(All(none).empty());
}

TEST(DataLoader, ExceptionsSurfaceWhereTheBatchIsAskedFor) {
  for (int workers : {0, 2}) {
    DataLoader loader(Counting(12, true), {.batch_size = 2, .workers = workers});
    auto batch = loader.begin();
    for (int i = 0; i < 2; ++i) ++batch;  // batches 0 to 2 are whole
    EXPECT_EQ((*batch)[0].to_vector<float>()[0], 4);
    EXPECT_THROW(++batch, std::runtime_error);
    ++batch;  // and the data goes on after it
    EXPECT_EQ((*batch)[0].to_vector<float>()[0], 8);
  }
}

TEST(DataLoader, WorkersStayAheadButNotFar) {
  Counting data(1000);
  auto read = data.read();
  DataLoader loader(data, {.batch_size = 10, .workers = 2, .prefetch = 3});
  {
    auto batch = loader.begin();
    for (int i = 0; i < 2000 && *read < 70; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(*read, 70);  // the one that is taken, and six ahead
  }
  EXPECT_EQ(*read, 70);  // a loop that is left early ends its workers
}

TEST(DataLoader, RefusesWhatHasNoMeaning) {
  EXPECT_THROW_MESSAGE(DataLoader(Counting(1), {.batch_size = 0}), ValueError, "batch_size is 0");
  EXPECT_THROW_MESSAGE(
      DataLoader(Counting(1), {.shuffle = true, .sampler = std::make_shared<SequentialSampler>()}),
      ValueError, "a sampler is given, and shuffle");
}

}  // namespace
}  // namespace hammock::data
