#include "backends/cuda/fault_words.h"

#include <algorithm>
#include <bit>

#include "base/throw.h"

namespace hammock::cuda {

namespace {

constexpr int kFewest = 8;   // words of a size; others are its double, and so on
constexpr int kSlab = 4096;  // words that are taken at once

}  // namespace

FaultWords::~FaultWords() {
  for (void* slab : host_slabs_) machine_->GiveHostMemory(slab);
  for (Address slab : device_slabs_) machine_->GiveMemory(slab);
}

void FaultWords::AddSlab(int size, std::vector<RunWords>& free) {
  const int words = std::max(size, kSlab);
  const int runs = words / size;
  const Address device = machine_->TakeMemory(runs * 8);
  if (device == 0) {
    Throw<OutOfMemory>(ErrorCode::kOutOfMemory, "{} has no {} bytes left for words of runs",
                       machine_->name(), runs * 8);
  }
  device_slabs_.push_back(device);
  auto* host = static_cast<uint64_t*>(machine_->TakeHostMemory(int64_t{words} * 8));
  host_slabs_.push_back(host);
  for (int run = runs - 1; run >= 0; --run) {
    free.push_back({host + int64_t{run} * size, device + static_cast<Address>(run) * 8});
  }
}

std::shared_ptr<const RunWords> FaultWords::Take(int count) {
  const int size = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(count, kFewest))));
  std::lock_guard lock(mutex_);
  std::vector<RunWords>& free = free_[size];
  if (free.empty()) AddSlab(size, free);
  auto words = std::make_unique<RunWords>(free.back());
  free.pop_back();
  std::fill_n(words->faults, size, 0);
  return {words.release(), [this, size](const RunWords* given) {
            std::lock_guard lock(mutex_);
            free_[size].push_back(*given);
            delete given;
          }};
}

}  // namespace hammock::cuda
