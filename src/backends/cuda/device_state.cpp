#include "backends/cuda/device_state.h"

#include <fmt/format.h>

#include <cstring>

namespace hammock::cuda {

namespace {

/// The error of a lost device: what the machine said, and which run is to blame. `suspects` are the
/// oldest runs of the streams of the card's devices; none where nothing was running.
std::shared_ptr<const Error> DescribeLoss(const std::string& device, const MachineLost& error,
                                          const std::vector<NotedRun>& suspects) {
  std::string cause = error.message();
  std::string where = error.where();
  if (where.empty() && !suspects.empty()) {
    std::string names;
    for (const NotedRun& run : suspects) {
      names += (names.empty() ? "" : ", or ") + run.program->NamesOfCommands();
    }
    cause += "; it happened in the run of " + names;
    where = WhereText(suspects[0].location);
    if (where.empty()) where = suspects[0].program->Where();
  }
  auto loss = std::make_shared<DeviceError>(
      ErrorCode::kDevice,
      fmt::format("{} is lost, and with it the values that were only there: {}", device, cause));
  loss->SetWhere(where);
  return loss;
}

}  // namespace

DeviceState::DeviceState(std::shared_ptr<Machine> machine, std::string name)
    : machine(machine),
      name(std::move(name)),
      memory(machine, this->name.c_str()),
      faults(machine),
      checks(this->name) {}

void DeviceState::ForgetEnded(int stream) {
  const uint64_t passed = machine->Passed(stream);
  std::deque<Running>& runs = runs_[stream];
  while (!runs.empty() && runs.front().event <= passed) runs.pop_front();
}

void DeviceState::NoteRun(const Event& event, NotedRun run) {
  std::lock_guard lock(mutex_);
  ForgetEnded(event.stream);
  runs_[event.stream].push_back({event.number, std::move(run)});
}

std::vector<NotedRun> DeviceState::OldestRuns() {
  std::lock_guard lock(mutex_);
  std::vector<NotedRun> oldest;
  for (int stream = 0; stream < kMostStreams; ++stream) {
    ForgetEnded(stream);
    const std::deque<Running>& runs = runs_[stream];
    if (!runs.empty()) oldest.push_back(runs.front().run);
  }
  return oldest;
}

std::shared_ptr<const Error> DeviceState::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

void DeviceState::Lose(std::shared_ptr<const Error> error) {
  std::lock_guard lock(mutex_);
  if (!lost_) lost_ = std::move(error);
  is_lost_.store(true, std::memory_order_release);
}

void DeviceState::RaiseLost() {
  told_ = true;
  lost()->Raise();
  __builtin_unreachable();
}

void DeviceState::RaiseLostOnce() {
  if (!told_.exchange(true)) RaiseLost();
}

void DeviceState::LoseCard(const MachineLost& error, const NotedRun& run) {
  std::vector<NotedRun> suspects;
  for (DeviceState* device : on_card_) {
    for (NotedRun& oldest : device->OldestRuns()) suspects.push_back(std::move(oldest));
  }
  if (suspects.empty() && run.program) suspects.push_back(run);
  for (DeviceState* device : on_card_) device->Lose(DescribeLoss(device->name, error, suspects));
}

BlockPtr DeviceState::Take(int64_t bytes, const char* what, int64_t others, BlockUse use) {
  try {
    return memory.Take(bytes, what, others, use);
  } catch (const OutOfMemory&) {
    int64_t freed = 0;
    for (DeviceState* device : on_card_) {
      if (device != this) freed += device->memory.FreeCached();
    }
    if (freed == 0) throw;
  }
  return memory.Take(bytes, what, others, use);
}

void DeviceState::Upload(Address to, const void* from, int64_t bytes) {
  machine->Upload(to, from, bytes);
  uploaded_ += bytes;
}

HostTensor DeviceState::Download(const DeviceData& data) {
  HostTensor tensor(data.shape());
  if (const NumberBytes* number = data.number()) {
    if (is_lost()) RaiseLost();
    std::memcpy(tensor.mutable_data(), number->data(), static_cast<size_t>(tensor.bytes()));
    return tensor;
  }
  BlockPtr block = data.block();
  Guarded([&] {
    machine->Download(tensor.mutable_data(), block->address, tensor.bytes(), data.event().get());
  });
  downloaded_ += tensor.bytes();
  return tensor;
}

void DeviceState::KeepUntil(std::shared_ptr<Event> event, BlockPtr block) {
  block->Share();
  const int stream = event->stream;
  checks.Push(stream, [this, event = std::move(event), block = std::move(block)] {
    try {
      machine->WaitFor(*event);
    } catch (const Error&) {  // then nobody will read the copy either
    }
  });
}

void ShareCards(const std::vector<std::unique_ptr<DeviceState>>& devices) {
  for (const auto& device : devices) {
    for (const auto& other : devices) {
      if (other->machine->card() == device->machine->card()) {
        device->on_card_.push_back(other.get());
      }
    }
    const auto sharers = static_cast<int64_t>(device->on_card_.size());
    if (sharers > 1) device->memory.SetLimit(device->machine->memory_bytes() / sharers);
  }
}

}  // namespace hammock::cuda
