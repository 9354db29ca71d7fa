#include "base/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace hammock {
namespace {

constexpr size_t kBytes = 200;

std::vector<void*> Allocated(size_t count) {
  std::vector<void*> blocks;
  for (size_t i = 0; i < count; ++i) {
    blocks.push_back(pool::Allocate(kBytes));
    std::memset(blocks.back(), 0xff, kBytes);
  }
  return blocks;
}

void Free(const std::vector<void*>& blocks) {
  for (void* block : blocks) pool::Free(block, kBytes);
}

TEST(Pool, BlocksInUseDiffer) {
  std::vector<void*> blocks = Allocated(1000), more = Allocated(1000);
  std::set<void*> all(blocks.begin(), blocks.end());
  all.insert(more.begin(), more.end());
  EXPECT_EQ(all.size(), 2000u);
  Free(more);
  Free(blocks);
}

// One thread makes what another one frees, as steps do with nodes.
TEST(Pool, UsesAgainWhatAnotherThreadFreed) {
  if (!pool::kPooled) GTEST_SKIP() << "the system allocator";
  std::set<void*> seen;
  for (int i = 0; i < 50; ++i) {
    std::vector<void*> blocks = Allocated(1000);
    seen.insert(blocks.begin(), blocks.end());
    std::thread([&] { Free(blocks); }).join();
  }
  EXPECT_LE(seen.size(), 1000u + 2 * pool::kBatch);
}

TEST(Pool, HandsOverWhileBothThreadsRun) {
  std::vector<void*> blocks = Allocated(5000);
  std::thread other([&] { Free(blocks); });
  std::vector<void*> own = Allocated(5000);
  other.join();
  EXPECT_EQ(std::set<void*>(own.begin(), own.end()).size(), own.size());
  Free(own);
}

}  // namespace
}  // namespace hammock
