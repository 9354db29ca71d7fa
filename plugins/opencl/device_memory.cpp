#include "device_memory.h"

#include <fmt/format.h>
#include <hammock/error.h>

#include <algorithm>
#include <bit>

namespace opencl {

using hammock::ErrorCode;
using hammock::OutOfMemory;

namespace {

/// Four sizes between powers of two, so that blocks of similar sizes serve each other.
int64_t RoundedUp(int64_t bytes) {
  constexpr int64_t kLeast = 256;
  if (bytes <= kLeast) return kLeast;
  const auto step = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)) / 8);
  return (bytes + step - 1) / step * step;
}

}  // namespace

Block::~Block() { owner.GiveBack(*this); }

DeviceMemory::DeviceMemory(cl_context context, cl_device_id device)
    : context_(context),
      total_(static_cast<int64_t>(InfoOf<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE))),
      largest_(static_cast<int64_t>(InfoOf<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE))) {}

BlockPtr DeviceMemory::Take(int64_t bytes, const char* what) {
  const int64_t reserved = RoundedUp(bytes);
  if (reserved > largest_) {
    throw OutOfMemory(ErrorCode::kOutOfMemory,
                      fmt::format("opencl: {} of {} bytes: the largest buffer of the device has {}",
                                  what, bytes, largest_));
  }
  std::unique_lock lock(mutex_);
  if (limit_ > 0 && in_use_ + bytes > limit_) {
    throw OutOfMemory(ErrorCode::kOutOfMemory,
                      fmt::format("opencl: {} of {} bytes: {} of the limit of {} bytes are in use",
                                  what, bytes, in_use_, limit_));
  }
  Memory memory;
  if (auto found = cached_.find(reserved); found != cached_.end()) {
    memory = std::move(found->second);
    cached_.erase(found);
  } else {
    if (reserved_ + reserved <= total_) memory = Allocate(reserved);
    if (!memory.get()) {  // perhaps cached blocks of other sizes take the room
      for (const auto& [size, unused] : cached_) reserved_ -= size;
      cached_.clear();
      if (reserved_ + reserved <= total_) memory = Allocate(reserved);
    }
    if (!memory.get()) {
      throw OutOfMemory(ErrorCode::kOutOfMemory,
                        fmt::format("opencl: {} of {} bytes: the device has {} bytes, {} in use",
                                    what, bytes, total_, in_use_));
    }
    reserved_ += reserved;
  }
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  lock.unlock();
  return std::make_shared<const Block>(*this, std::move(memory), bytes, reserved);
}

Memory DeviceMemory::Allocate(int64_t reserved) const {
  cl_int status = CL_SUCCESS;
  Memory memory(
      clCreateBuffer(context_, CL_MEM_READ_WRITE, static_cast<size_t>(reserved), nullptr, &status));
  return status == CL_SUCCESS ? std::move(memory) : Memory();
}

void DeviceMemory::GiveBack(Block& block) {
  std::lock_guard lock(mutex_);
  in_use_ -= block.bytes;
  cached_.emplace(block.reserved, std::move(block.memory));
}

hammock::lazy::MemoryInfo DeviceMemory::Info() const {
  std::lock_guard lock(mutex_);
  return {
      .in_use = in_use_, .reserved = reserved_, .peak = peak_, .limit = limit_, .total = total_};
}

void DeviceMemory::SetLimit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void DeviceMemory::FreeCached() {
  std::lock_guard lock(mutex_);
  for (const auto& [size, unused] : cached_) reserved_ -= size;
  cached_.clear();
}

}  // namespace opencl
