#include "backends/cuda/driver/device_memory.h"

#include <algorithm>

#include "backends/common/size_class.h"
#include "base/throw.h"

namespace hammock::cuda {

Block::~Block() {
  if (memory_) {
    memory_->Give(*this);
  } else if (release_) {
    release_();
  }
}

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
  auto take_of = [&](std::map<Address, StreamUses>& blocks, int user) -> Address {
    auto idle = std::find_if(blocks.begin(), blocks.end(), [&](const auto& block) {
      return block.second.AreOver(*machine_, user);
    });
    if (idle == blocks.end()) return 0;
    const Address address = idle->first;
    blocks.erase(idle);
    reserved_ -= size;
    return address;
  };
  if (use == BlockUse::kInOrder) {
    if (Address address = take_of(found->second[stream], stream)) return address;
  }
  for (std::map<Address, StreamUses>& blocks : found->second) {
    if (Address address = take_of(blocks, -1)) return address;
  }
  return 0;
}

void DeviceMemory::Give(const Block& block) {
  const int64_t size = SizeOf(std::max<int64_t>(block.bytes, 1));
  account_.Remove(block.bytes);
  std::lock_guard lock(mutex_);
  StreamUses uses = block.uses;
  uses.End(*machine_);
  cached_[size][block.uses.home()].emplace(block.address, uses);
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
    for (const std::map<Address, StreamUses>& cached : streams) {
      for (const auto& [address, uses] : cached) machine_->GiveMemory(address);
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
