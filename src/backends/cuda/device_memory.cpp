#include "backends/cuda/device_memory.h"

#include "backends/cpu/host_allocator.h"
#include "base/throw.h"

namespace hammock::cuda {

Block::~Block() { memory_.Give(address, bytes); }

DeviceMemory::DeviceMemory(std::shared_ptr<Machine> machine, const char* device)
    : machine_(std::move(machine)), account_(device) {}

/// A size class wastes less than an eighth.
int64_t DeviceMemory::SizeOf(int64_t bytes) {
  constexpr int64_t kGrain = 512;
  return (cpu::HostAllocator::BlockSize(bytes) + kGrain - 1) / kGrain * kGrain;
}

BlockPtr DeviceMemory::Take(int64_t bytes, std::string_view what, int64_t others, BlockUse use) {
  account_.Add(bytes, others, what);
  int64_t size = SizeOf(std::max<int64_t>(bytes, 1));
  try {
    Address address = TakeCached(size, use);
    if (address == 0) address = machine_->TakeMemory(size);
    if (address == 0 && FreeCached() > 0) address = machine_->TakeMemory(size);
    if (address == 0) {
      Throw<OutOfMemory>(
          ErrorCode::kOutOfMemory, "{}: {} has no {} bytes left, {} are in use of {}", what,
          account_.device(), bytes, account_.in_use() - bytes, machine_->memory_bytes());
    }
    return std::make_shared<Block>(*this, address, bytes);
  } catch (...) {
    account_.Remove(bytes);
    throw;
  }
}

Address DeviceMemory::TakeCached(int64_t size, BlockUse use) {
  std::lock_guard lock(mutex_);
  auto found = cached_.find(size);
  if (found == cached_.end() || found->second.empty()) return 0;
  std::vector<Cached>& blocks = found->second;
  // The last one may still be in a cache of the device, the first one is idle the longest.
  bool first = use == BlockUse::kBeside;
  if (first && blocks.front().moment > machine_->Passed()) return 0;
  auto taken = first ? blocks.begin() : std::prev(blocks.end());
  Address address = taken->address;
  blocks.erase(taken);
  reserved_ -= size;
  return address;
}

void DeviceMemory::Give(Address address, int64_t bytes) {
  int64_t size = SizeOf(std::max<int64_t>(bytes, 1));
  account_.Remove(bytes);
  std::lock_guard lock(mutex_);
  cached_[size].push_back({address, machine_->Asked()});
  reserved_ += size;
}

int64_t DeviceMemory::FreeCached() {
  std::map<int64_t, std::vector<Cached>> blocks;
  int64_t freed = 0;
  {
    std::lock_guard lock(mutex_);
    blocks.swap(cached_);
    std::swap(freed, reserved_);
  }
  if (freed > 0) machine_->Finish();
  for (const auto& [size, cached] : blocks) {
    for (const Cached& block : cached) machine_->GiveMemory(block.address);
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
