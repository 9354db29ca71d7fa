#include "runtime/devices/lane.h"

#include <algorithm>
#include <limits>

#include "base/of_thread.h"
#include "hammock/config.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/devices/backend_registry.h"
#include "runtime/devices/memory_pressure.h"
#include "runtime/step/executor.h"

namespace hammock {

Turns::Turn::Turn(Turns& turns, uint64_t number) : turns_(turns), number_(number) {
  for (uint64_t now; (now = turns_.now_.load(std::memory_order_acquire)) != number_;) {
    turns_.now_.wait(now, std::memory_order_acquire);
  }
}

Turns::Turn::~Turn() {
  turns_.now_.store(number_ + 1, std::memory_order_release);
  turns_.now_.notify_all();
}

Lane::Lane(const std::string& name)
    : queue(name,
            static_cast<size_t>(std::max<int64_t>(1, config::Get<config::kMaxAsyncQueue>()))) {}

void Lane::Drain() {
  queue.Drain();
  // A computation that another thread runs inline.
  std::lock_guard lock(running);
}

/// By device; given back when the thread ends.
struct LanesOfThread {
  struct Entry {
    ThreadLanes* lanes = nullptr;
    Lane* lane = nullptr;
  };
  ~LanesOfThread() {
    for (const Entry& entry : by_device) {
      if (!entry.lane) continue;
      std::lock_guard lock(entry.lanes->mutex_);
      entry.lanes->free_.push_back(entry.lane);
    }
  }
  std::vector<Entry> by_device;
};

Lane& ThreadLanes::Mine(const DeviceEntry& device) {
  auto& mine = OfThread<LanesOfThread>().by_device;
  if (mine.size() <= device.id) mine.resize(device.id + 1);
  LanesOfThread::Entry& entry = mine[device.id];
  if (entry.lane) return *entry.lane;
  std::lock_guard lock(mutex_);
  // One with steps of a thread that has ended would make this one wait.
  auto idle = std::ranges::find_if(free_, [](Lane* lane) { return lane->queue.size() == 0; });
  if (idle != free_.end()) {
    entry = {this, *idle};
    free_.erase(idle);
  } else {
    all_.push_back(std::make_unique<Lane>(device.name()));
    entry = {this, all_.back().get()};
  }
  return *entry.lane;
}

std::vector<Lane*> ThreadLanes::All() {
  std::lock_guard lock(mutex_);
  std::vector<Lane*> all;
  for (const auto& lane : all_) all.push_back(lane.get());
  return all;
}

Lane& LaneOf(DeviceEntry& device) {
  const lazy::BackendImplInterface& backend = *device.backend;
  bool own = !backend.IsAsynchronous() && backend.SupportsConcurrentExecution();
  return own ? device.thread_lanes.Mine(device) : device.lane;
}

std::vector<Lane*> LanesOf(DeviceEntry& device) {
  std::vector<Lane*> lanes = device.thread_lanes.All();
  lanes.push_back(&device.lane);
  return lanes;
}

// ---- Memory

bool RunningMemory::Fits(const DeviceEntry& device, int64_t bytes) const {
  if (bytes == kAll || bytes_ >= kAll) return false;
  const lazy::MemoryInfo info = MemoryOf(device);
  const bool of_host = info.limit == 0 && info.total == 0;
  if (of_host && bytes_ + bytes <= kLittleMemory) return true;
  // Some of `bytes_` is in use already: rather too little runs at once than too much.
  return bytes <= FreeBytes(info) - bytes_;
}

void RunningMemory::Enter(std::unique_lock<std::mutex>& lock, const DeviceEntry& device,
                          int64_t bytes) {
  const uint64_t number = arrived_++;
  try {
    changed_.wait(lock,
                  [&] { return number == let_in_ && (running_ == 0 || Fits(device, bytes)); });
  } catch (...) {  // of the backend, which was asked when it was this one's turn
    ++let_in_;
    changed_.notify_all();
    throw;
  }
  ++let_in_;
  ++running_;
  bytes_ += bytes;
  if (let_in_ != arrived_) changed_.notify_all();
}

void RunningMemory::Leave(int64_t bytes) {
  --running_;
  bytes_ -= bytes;
  if (let_in_ != arrived_) changed_.notify_all();
}

RunningMemory::Use::Use(DeviceEntry& device, int64_t bytes, bool inside)
    : device_(device), bytes_(bytes), counted_(!inside && !device.backend->IsAsynchronous()) {
  if (!counted_) return;
  if (bytes == 0 && MemoryOf(device).limit > 0) bytes_ = kAll;
  RunningMemory& memory = device.memory;
  std::unique_lock lock(memory.mutex_);
  memory.Enter(lock, device, bytes_);
  number_ = memory.let_in_;
  beside_others_ = memory.running_ > 1;
}

RunningMemory::Use::~Use() {
  if (!counted_) return;
  std::lock_guard lock(device_.memory.mutex_);
  device_.memory.Leave(bytes_);
}

bool RunningMemory::Use::BecomeAlone() {
  if (!counted_) return false;
  RunningMemory& memory = device_.memory;
  std::unique_lock lock(memory.mutex_);
  if (!beside_others_ && memory.let_in_ == number_) return false;
  memory.Leave(bytes_);
  bytes_ = kAll;
  memory.Enter(lock, device_, bytes_);
  number_ = memory.let_in_;
  beside_others_ = false;
  return true;
}

}  // namespace hammock
