#include "backends/cuda/fault_words.h"

#include <algorithm>
#include <bit>

namespace hammock::cuda {

namespace {

constexpr int kFewest = 8;   // words of a size; others are its double, and so on
constexpr int kSlab = 4096;  // words that are taken at once

}  // namespace

FaultWords::~FaultWords() {
  for (void* slab : slabs_) machine_->GiveHostMemory(slab);
}

std::shared_ptr<uint64_t> FaultWords::Take(int count) {
  const int size = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(count, kFewest))));
  std::lock_guard lock(mutex_);
  std::vector<uint64_t*>& free = free_[size];
  if (free.empty()) {
    const int words = std::max(size, kSlab);
    auto* slab = static_cast<uint64_t*>(machine_->TakeHostMemory(words * 8));
    slabs_.push_back(slab);
    for (int at = words - size; at >= 0; at -= size) free.push_back(slab + at);
  }
  uint64_t* words = free.back();
  free.pop_back();
  std::fill_n(words, size, 0);
  return {words, [this, size](uint64_t* given) {
            std::lock_guard lock(mutex_);
            free_[size].push_back(given);
          }};
}

}  // namespace hammock::cuda
