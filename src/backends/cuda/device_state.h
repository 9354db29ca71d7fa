#pragma once
/// DeviceState: a device of the CUDA backend, with its machine, its memory and its unfinished runs.
///
/// Note [Lost cards]: a kernel fails after its launch has returned, and from then on every call of
/// its card fails. Data counts as ready when its run was launched, so no value has the error when
/// it is noticed. The device therefore remembers the runs that have not ended: the oldest of them
/// is the one that failed, or with several streams one of their oldest, and the error names its ops
/// and lines. From then on the device is lost: every use of it and every read of one of its values
/// raises that error. Other devices and their values are not affected.

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/driver/checks.h"
#include "backends/cuda/driver/device_data.h"
#include "backends/cuda/driver/device_memory.h"
#include "backends/cuda/driver/fault_words.h"
#include "backends/cuda/program.h"

namespace hammock::cuda {

struct NotedRun {
  std::shared_ptr<const Program> program;
  LocationId location = 0;  ///< where its step was recorded
};

/// Thread-safe.
class DeviceState {
 public:
  DeviceState(std::shared_ptr<Machine> machine, std::string name);

  const std::shared_ptr<Machine> machine;
  const std::string name;
  DeviceMemory memory;
  FaultWords faults;
  Checks checks;
  /// The devices on its card, itself among them.
  const std::vector<DeviceState*>& on_card() const { return on_card_; }

  /// Does `work` on the device; raises the error of a lost one.
  template <class Fn>
  auto Guarded(Fn&& work) -> decltype(work()) {
    return Guarded({}, work);
  }
  /// The same for a run.
  template <class Fn>
  auto Guarded(const NotedRun& run, Fn&& work) -> decltype(work()) {
    if (is_lost()) RaiseLost();
    try {
      return work();
    } catch (const MachineLost& error) {
      LoseCard(error, run);
    }
    RaiseLost();
  }

  /// As Take of `memory`, but before it fails, cached memory of other devices of the card is freed.
  BlockPtr Take(int64_t bytes, const char* what, int64_t others, BlockUse use = BlockUse::kInOrder);
  void Upload(Address to, const void* from, int64_t bytes);
  /// The value on the host, which waits for it.
  HostTensor Download(const DeviceData& data);
  int64_t uploaded() const { return uploaded_; }  ///< bytes so far
  int64_t downloaded() const { return downloaded_; }
  /// Keeps the memory that a copy reads until `event`.
  void KeepUntil(std::shared_ptr<Event> event, BlockPtr block);

  /// Remembers a run that ends before `event`.
  void NoteRun(const Event& event, NotedRun run);

  bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }
  /// Null while the device works.
  std::shared_ptr<const Error> lost() const;
  [[noreturn]] void RaiseLost();
  /// Raises the error if it was not raised before.
  void RaiseLostOnce();

 private:
  struct Running {
    uint64_t event = 0;
    NotedRun run;
  };
  friend void ShareCards(const std::vector<std::unique_ptr<DeviceState>>& devices);
  void ForgetEnded(int stream);
  /// The first unfinished run of each stream.
  std::vector<NotedRun> OldestRuns();
  void LoseCard(const MachineLost& error, const NotedRun& run);
  /// Does nothing if it was lost before.
  void Lose(std::shared_ptr<const Error> error);

  std::vector<DeviceState*> on_card_;
  mutable std::mutex mutex_;
  std::array<std::deque<Running>, kMostStreams> runs_;  // by stream
  std::shared_ptr<const Error> lost_;
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> told_{false};
  std::atomic<int64_t> uploaded_{0};
  std::atomic<int64_t> downloaded_{0};
};

/// Tells devices which of them are on one card; each may use an equal part of its memory.
void ShareCards(const std::vector<std::unique_ptr<DeviceState>>& devices);

}  // namespace hammock::cuda
