#include "backends/cuda/driver/fault_words.h"

#include <algorithm>
#include <bit>

#include "base/throw.h"

namespace hammock::cuda {

namespace {

constexpr int kFewest = 8;   // words of a size; others are its double, and so on
constexpr int kSlab = 4096;  // words that are taken at once

}  // namespace

FaultWords::~FaultWords() {
  for (void* slab : slabs_) machine_->GiveHostMemory(slab);
  for (Address word : failed_) machine_->GiveMemory(word);
}

RunWords FaultWords::Make(int size) {
  std::vector<uint64_t*>& unused = unused_[size];
  if (unused.empty()) {
    const int words = std::max(size, kSlab);
    auto* slab = static_cast<uint64_t*>(machine_->TakeHostMemory(int64_t{words} * 8));
    slabs_.push_back(slab);
    for (int at = words - size; at >= 0; at -= size) unused.push_back(slab + at);
  }
  const Address failed = machine_->TakeMemory(8);
  if (failed == 0) {
    Throw<OutOfMemory>(ErrorCode::kOutOfMemory, "{} has no 8 bytes left for the word of a run",
                       machine_->name());
  }
  failed_.push_back(failed);
  uint64_t* faults = unused.back();
  unused.pop_back();
  return {faults, failed};
}

std::shared_ptr<const RunWords> FaultWords::Take(int count) {
  const int size = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(count, kFewest))));
  const int stream = machine_->Stream();
  std::lock_guard lock(mutex_);
  std::vector<RunWords>& free = free_[size];
  auto words = std::make_unique<RunWords>();
  // A stream gets its own again, so that CUDA graphs find the same addresses.
  auto find = [&](bool own) {
    return std::find_if(free.rbegin(), free.rend(), [&](const RunWords& known) {
      return (!own || known.uses.home() == stream) && known.uses.AreOver(*machine_, stream);
    });
  };
  auto found = find(/*own=*/true);
  if (found == free.rend()) found = find(/*own=*/false);
  if (found != free.rend()) {
    *words = *found;
    free.erase(std::next(found).base());
  } else {
    *words = Make(size);
  }
  words->uses = StreamUses(stream);
  std::fill_n(words->faults, size, 0);
  return {words.release(), [this, size](const RunWords* given) {
            given->uses.End(*machine_);
            std::lock_guard lock(mutex_);
            free_[size].push_back(*given);
            delete given;
          }};
}

}  // namespace hammock::cuda
