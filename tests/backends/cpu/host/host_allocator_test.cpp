#include "backends/cpu/host/host_allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hammock/error.h"

namespace hammock::cpu {
namespace {

constexpr int64_t kMega = int64_t{1} << 20;

bool Aligned(const void* block, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(block) % alignment == 0;
}

TEST(HostAllocator, BlocksHoldTheBytesAndWasteLittle) {
  int64_t last = 0;
  for (int64_t bytes = 0; bytes < int64_t{1} << 40; bytes += bytes / 37 + 1) {
    int64_t size = BlockSize(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_GE(size, last);
    ASSERT_EQ(size % 64, 0);
    ASSERT_EQ(BlockSize(size), size) << bytes;
    if (bytes > 512) {
      ASSERT_LT(8 * (size - bytes), size + 8 * 64) << bytes;
    } else if (bytes > 0) {
      ASSERT_LT(size - bytes, 64) << bytes;
    }
    last = size;
  }
}

TEST(HostAllocator, BlocksAreAligned) {
  HostAllocator allocator("cpu");
  for (int64_t bytes : {0, 1, 63, 64, 1000, 100000, 2 << 20, 5000000, 40 << 20}) {
    void* block = allocator.Allocate(bytes, "test");
    EXPECT_TRUE(Aligned(block, bytes >= 2 * kMega ? HostAllocator::kHugePage : 64)) << bytes;
    std::memset(block, 1, bytes);
    allocator.Free(block, bytes);
  }
}

TEST(HostAllocator, FreedBlocksAreUsedAgain) {
  HostAllocator allocator("cpu");
  for (int64_t bytes : {10, 5000, 3 << 20}) {
    void* first = allocator.Allocate(bytes, "test");
    allocator.Free(first, bytes);
    EXPECT_EQ(allocator.Allocate(bytes, "test"), first);
    allocator.Free(first, bytes);
  }
}

TEST(HostAllocator, OneThreadUsesWhatAnotherFreed) {
  HostAllocator allocator("cpu");
  void* block = allocator.Allocate(5000, "test");
  std::thread([&] { allocator.Free(block, 5000); }).join();
  EXPECT_EQ(allocator.Allocate(5000, "test"), block);
  allocator.Free(block, 5000);
}

TEST(HostAllocator, CountsWhatIsInUseReservedAndThePeak) {
  HostAllocator allocator("cpu");
  void* a = allocator.Allocate(1000, "test");
  void* b = allocator.Allocate(3 * kMega, "test");
  lazy::MemoryInfo info = allocator.Info();
  EXPECT_EQ(info.in_use, 1000 + 3 * kMega);
  EXPECT_EQ(info.peak, 1000 + 3 * kMega);
  EXPECT_EQ(info.reserved, 1024 + 3 * kMega);
  EXPECT_EQ(info.limit, 0);
  allocator.Free(a, 1000);
  allocator.Free(b, 3 * kMega);
  info = allocator.Info();
  EXPECT_EQ(info.in_use, 0);
  EXPECT_EQ(info.peak, 1000 + 3 * kMega);
  EXPECT_EQ(info.reserved, 1024 + 3 * kMega);
  EXPECT_EQ(allocator.FreeCached(), 1024 + 3 * kMega);
  EXPECT_EQ(allocator.FreeCached(), 0);
  EXPECT_EQ(allocator.Info().reserved, 0);
}

TEST(HostAllocator, RefusesMoreThanTheLimit) {
  HostAllocator allocator("cpu");
  allocator.SetLimit(1000);
  void* block = allocator.Allocate(600, "test");
  try {
    allocator.Allocate(500, "matmul");
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what())
                  .find("matmul: 500 bytes exceed the limit of 1000 bytes on cpu, 600 are in use"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(allocator.Info().in_use, 600);
  EXPECT_THROW(allocator.Allocate(100, "matmul", 400), OutOfMemory);
  allocator.Free(allocator.Allocate(400, "test"), 400);
  allocator.Free(block, 600);
}

TEST(HostAllocator, CachedBlocksMakeRoomBelowALimit) {
  HostAllocator allocator("cpu");
  allocator.SetLimit(10 * kMega);
  allocator.Free(allocator.Allocate(8 * kMega, "test"), 8 * kMega);
  void* block = allocator.Allocate(4 * kMega, "test");
  EXPECT_EQ(allocator.Info().reserved, 4 * kMega);
  allocator.Free(block, 4 * kMega);
}

TEST(HostAllocator, SizesThatNeverComeAgainDoNotPileUp) {
  HostAllocator allocator("cpu");
  for (int64_t i = 0; i < 200; ++i) {
    int64_t bytes = (2 + i) * kMega;
    allocator.Free(allocator.Allocate(bytes, "test"), bytes);
    lazy::MemoryInfo info = allocator.Info();
    ASSERT_LE(info.reserved, 2 * info.peak + info.peak / 4 + 64 * kMega);
  }
}

TEST(HostAllocator, ArenasOfEverOtherSizesShareMemory) {
  HostAllocator allocator("cpu");
  char* largest = HostAllocator::Arena(allocator, 4 * kMega, "test").data();
  for (int64_t bytes = kMega + 1; bytes <= 4 * kMega; bytes += kMega / 4) {
    HostAllocator::Arena arena(allocator, bytes, "test");
    EXPECT_EQ(arena.data(), largest) << bytes;
    EXPECT_EQ(allocator.Info().in_use, bytes);
  }
  EXPECT_EQ(allocator.Info().in_use, 0);
  EXPECT_EQ(allocator.Info().reserved, 4 * kMega);
  // Much smaller ones, and blocks that stay, are not served by large blocks.
  EXPECT_NE(HostAllocator::Arena(allocator, kMega / 2, "test").data(), largest);
  void* block = allocator.Allocate(2 * kMega, "test");
  EXPECT_NE(block, largest);
  allocator.Free(block, 2 * kMega);
  EXPECT_EQ(HostAllocator::Arena(allocator, 0, "test").data(), nullptr);
}

TEST(HostAllocator, TooLargeForTheHostIsOutOfMemory) {
  HostAllocator allocator("cpu");
  EXPECT_THROW(allocator.Allocate(int64_t{1} << 55, "test"), OutOfMemory);
  EXPECT_EQ(allocator.Info().in_use, 0);
  EXPECT_EQ(allocator.Info().reserved, 0);
}

TEST(HostAllocator, TensorsGiveTheirMemoryBack) {
  HostAllocator allocator("cpu");
  {
    HostTensor tensor = allocator.New(Shape(f32, {10, 10}), "test");
    HostTensor again = tensor;
    EXPECT_EQ(allocator.Info().in_use, 400);
    HostTensor empty = allocator.New(Shape(f32, {0, 10}), "test");
    EXPECT_TRUE(empty.defined());
  }
  EXPECT_EQ(allocator.Info().in_use, 0);
  HostTensor own(Shape(f32, {25}));
  {
    HostTensor adopted = allocator.Adopt(own, "test");
    EXPECT_EQ(adopted.data(), own.data());
    EXPECT_EQ(allocator.Info().in_use, 100);
  }
  EXPECT_EQ(allocator.Info().in_use, 0);
}

TEST(HostAllocator, ThreadsNeverGetTheSameBlock) {
  HostAllocator allocator("cpu");
  std::vector<std::thread> users;
  std::atomic<int> wrong{0};
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&, user] {
      std::mt19937 random(user);
      std::vector<std::pair<char*, int64_t>> held;
      for (int turn = 0; turn < 3000; ++turn) {
        if (held.size() < 20) {
          int64_t bytes = 1 + random() % 5000;
          char* block = static_cast<char*>(allocator.Allocate(bytes, "test"));
          std::memset(block, user, bytes);
          held.emplace_back(block, bytes);
        } else {
          auto [block, bytes] = held[random() % held.size()];
          std::erase(held, std::pair{block, bytes});
          if (block[0] != user || block[bytes - 1] != user) ++wrong;
          allocator.Free(block, bytes);
        }
        if (turn % 1000 == 0) allocator.FreeCached();
      }
      for (auto [block, bytes] : held) allocator.Free(block, bytes);
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(allocator.Info().in_use, 0);
}

}  // namespace
}  // namespace hammock::cpu
