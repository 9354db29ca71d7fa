#include "backends/cuda/driver/stream_uses.h"

#include <atomic>
#include <bit>

namespace hammock::cuda {

namespace {

uint32_t BitOf(int stream) { return uint32_t{1} << stream; }

}  // namespace

void StreamUses::Note(const Event& event) {
  if (event.stream == home_) return;
  std::atomic_ref last(last_[event.stream]);
  // Threads that share a stream may come in any order.
  uint64_t known = last.load(std::memory_order_relaxed);
  while (known < event.number &&
         !last.compare_exchange_weak(known, event.number, std::memory_order_relaxed)) {
  }
  std::atomic_ref(noted_).fetch_or(BitOf(event.stream), std::memory_order_relaxed);
}

void StreamUses::End(const Machine& machine) {
  last_[home_] = machine.Asked(home_);
  noted_ |= BitOf(home_);
}

bool StreamUses::HavePassed(const Machine& machine, uint32_t streams) const {
  for (; streams != 0; streams &= streams - 1) {
    const int stream = std::countr_zero(streams);
    if (last_[stream] > machine.Passed(stream)) return false;
  }
  return true;
}

void StreamUses::TakeOver(Machine& machine) {
  const int mine = machine.Stream();
  End(machine);
  for (uint32_t left = noted_ & ~BitOf(mine); left != 0; left &= left - 1) {
    const int stream = std::countr_zero(left);
    machine.ComeAfter(stream, last_[stream]);
  }
  *this = StreamUses(mine);
}

}  // namespace hammock::cuda
