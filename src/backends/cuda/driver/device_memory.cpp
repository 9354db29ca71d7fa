#include "backends/cuda/driver/device_memory.h"

#include "backends/common/size_class.h"
#include "base/throw.h"

namespace hammock::cuda {

namespace {

constexpr ptrdiff_t kLooks = 8;  // for a block of the own stream that no other one uses

}  // namespace

Block::~Block() { memory_.Give(*this); }

DeviceMemory::DeviceMemory(std::shared_ptr<Machine> machine, const char* device)
    : machine_(std::move(machine)), account_(device) {}

/// A size class wastes less than an eighth.
int64_t DeviceMemory::SizeOf(int64_t bytes) {
  constexpr int64_t kGrain = 512;
  return (BlockSize(bytes) + kGrain - 1) / kGrain * kGrain;
}

BlockPtr DeviceMemory::Take(int64_t bytes, std::string_view what, int64_t others, BlockUse use) {
  account_.Add(bytes, others, what);
  int64_t size = SizeOf(std::max<int64_t>(bytes, 1));
  try {
    const int stream = machine_->Stream();
    Address address = TakeCached(size, use, stream);
    if (address == 0) address = machine_->TakeMemory(size);
    if (address == 0 && FreeCached() > 0) address = machine_->TakeMemory(size);
    if (address == 0) {
      Throw<OutOfMemory>(
          ErrorCode::kOutOfMemory, "{}: {} has no {} bytes left, {} are in use of {}", what,
          account_.device(), bytes, account_.in_use() - bytes, machine_->memory_bytes());
    }
    return std::make_shared<Block>(*this, address, bytes, stream);
  } catch (...) {
    account_.Remove(bytes);
    throw;
  }
}

Address DeviceMemory::TakeCached(int64_t size, BlockUse use, int stream) {
  std::lock_guard lock(mutex_);
  auto found = cached_.find(size);
  if (found == cached_.end()) return 0;
  auto take = [&](std::vector<Cached>& blocks, std::vector<Cached>::iterator taken) {
    Address address = taken->address;
    blocks.erase(taken);
    reserved_ -= size;
    return address;
  };
  if (use == BlockUse::kInOrder) {
    std::vector<Cached>& own = found->second[stream];
    // The last one may still be in a cache of the device. Other streams may still read a few.
    const ptrdiff_t looks = std::min<ptrdiff_t>(kLooks, std::ssize(own));
    for (auto block = own.end(); block != own.end() - looks;) {
      if ((--block)->uses.AreOver(*machine_, stream)) return take(own, block);
    }
  }
  for (std::vector<Cached>& blocks : found->second) {
    // The first one is idle the longest.
    if (blocks.empty() || !blocks.front().uses.AreOver(*machine_, -1)) continue;
    return take(blocks, blocks.begin());
  }
  return 0;
}

void DeviceMemory::Give(const Block& block) {
  const int64_t size = SizeOf(std::max<int64_t>(block.bytes, 1));
  account_.Remove(block.bytes);
  std::lock_guard lock(mutex_);
  std::vector<Cached>& blocks = cached_[size][block.uses.home()];
  blocks.push_back({block.address, block.uses});
  blocks.back().uses.End(*machine_);
  reserved_ += size;
}

int64_t DeviceMemory::FreeCached() {
  std::map<int64_t, Streams> blocks;
  int64_t freed = 0;
  {
    std::lock_guard lock(mutex_);
    blocks.swap(cached_);
    std::swap(freed, reserved_);
  }
  if (freed > 0) machine_->Finish();
  for (const auto& [size, streams] : blocks) {
    for (const std::vector<Cached>& cached : streams) {
      for (const Cached& block : cached) machine_->GiveMemory(block.address);
    }
  }
  return freed;
}

lazy::MemoryInfo DeviceMemory::Info() const {
  std::lock_guard lock(mutex_);
  lazy::MemoryInfo info;
  info.in_use = account_.in_use();
  info.reserved = account_.in_use() + reserved_;
  info.peak = account_.peak();
  info.limit = account_.limit();
  info.total = machine_->memory_bytes();
  return info;
}

}  // namespace hammock::cuda
