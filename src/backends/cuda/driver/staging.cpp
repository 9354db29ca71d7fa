#include "backends/cuda/driver/staging.h"

#include <algorithm>
#include <cstring>

namespace hammock::cuda {

namespace {

constexpr unsigned kNoTiming = 2;
constexpr const char* kToDevice = "a copy to the device";
constexpr const char* kToHost = "a copy to the host";

}  // namespace

void Staging::Open() {
  if (!slots_.empty()) return;
  void* memory = nullptr;
  driver_.Check(driver_.host_take(&memory, kSlots * kSlotBytes, 0), "cuMemHostAlloc");
  std::vector<Slot> slots(kSlots);
  for (size_t i = 0; i < kSlots; ++i) {
    slots[i].memory = static_cast<char*>(memory) + i * kSlotBytes;
    driver_.Check(driver_.event_create(&slots[i].copied, kNoTiming), "cuEventCreate");
  }
  slots_ = std::move(slots);
}

void Staging::Upload(CUdeviceptr to, const void* from, size_t bytes) {
  Open();
  for (size_t at = 0; at < bytes; at += kSlotBytes) {
    Slot& slot = SlotOf(uploads_++);
    const size_t part = std::min(kSlotBytes, bytes - at);
    // An event that was never recorded has passed.
    driver_.Check(driver_.event_synchronize(slot.copied), kToDevice);
    std::memcpy(slot.memory, static_cast<const char*>(from) + at, part);
    driver_.Check(driver_.copy_to_device(to + at, slot.memory, part, stream_), kToDevice);
    driver_.Check(driver_.event_record(slot.copied, stream_), kToDevice);
  }
}

void Staging::Download(void* to, CUdeviceptr from, size_t bytes) {
  Open();
  const size_t chunks = (bytes + kSlotBytes - 1) / kSlotBytes;
  auto part = [&](size_t chunk) { return std::min(kSlotBytes, bytes - chunk * kSlotBytes); };
  auto ask = [&](size_t chunk) {
    Slot& slot = SlotOf(chunk);
    driver_.Check(
        driver_.copy_to_host(slot.memory, from + chunk * kSlotBytes, part(chunk), stream_),
        kToHost);
    driver_.Check(driver_.event_record(slot.copied, stream_), kToHost);
  };
  for (size_t chunk = 0; chunk < std::min(chunks, kSlots); ++chunk) ask(chunk);
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    Slot& slot = SlotOf(chunk);
    driver_.Check(driver_.event_synchronize(slot.copied), kToHost);
    std::memcpy(static_cast<char*>(to) + chunk * kSlotBytes, slot.memory, part(chunk));
    if (chunk + kSlots < chunks) ask(chunk + kSlots);
  }
}

}  // namespace hammock::cuda
