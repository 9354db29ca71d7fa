#pragma once
/// DeviceData: a value on a device of the CUDA backend.

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "backends/cuda/calls/checks.h"
#include "backends/cuda/driver/device_memory.h"
#include "backends/cuda/driver/fault_words.h"
#include "base/throw.h"
#include "hammock/lazy/backend_data.h"

namespace hammock::cuda {

/// A block of device memory; null while it is a placeholder or after it was donated. Its value is
/// there from `event` on: for what is asked of the same stream later, for whoever comes after it,
/// and for the host. While it is pending, `words` are those of a run that has failed if the value
/// is of no use.
class DeviceData : public lazy::BackendData {
 public:
  /// `checks`, those of `checked_by`, will set it ready if it is pending.
  DeviceData(const lazy::BackendDevice& device, const Shape& shape, Checks& checks)
      : BackendData(device, shape), checks_(checks) {}
  DeviceData(const lazy::BackendDevice& device, const Shape& shape, Checks& checks, BlockPtr block,
             std::shared_ptr<Event> event, std::shared_ptr<const RunWords> words = nullptr,
             Checks::Mask checked_by = 0)
      : DeviceData(device, shape, checks) {
    Set(std::move(block), std::move(event));
    words_ = std::move(words);
    checked_by_ = checked_by;
  }

  /// A pending result gives up its memory: what is left of it is the news of its run, which comes
  /// later than the placeholder may go.
  void Assign(const lazy::BackendData& data) override {
    const auto* other = dynamic_cast<const DeviceData*>(&data);
    HAMMOCK_CHECK(other && other->shape() == shape(), "{} cannot receive {}", shape().to_string(),
                  data.shape().to_string());
    checked_by_ = other->checked_by();
    Set(other->block(), other->event());
    std::lock_guard lock(mutex_);
    words_ = other->words();
    if (!other->IsReady()) other->Forget();
  }
  bool HasValue() const override { return address() != 0; }
  void Hurry() const override {
    checks_.HelpUntil(checked_by(), [this] { return IsReady(); });
  }

  /// 0 if it has none. Takes no lock, since a run may have hundreds of arguments.
  Address address() const { return address_.load(std::memory_order_acquire); }
  BlockPtr block() const {
    std::lock_guard lock(mutex_);
    return block_;
  }
  std::shared_ptr<Event> event() const {
    std::lock_guard lock(mutex_);
    return event_;
  }
  /// Both, or null. What an argument has stays until its run was asked for.
  std::pair<Block*, const Event*> Look() const {
    std::lock_guard lock(mutex_);
    return {block_.get(), event_.get()};
  }
  Checks::Mask checked_by() const { return checked_by_.load(std::memory_order_relaxed); }
  std::shared_ptr<const RunWords> words() const {
    std::lock_guard lock(mutex_);
    return words_;
  }
  void Set(BlockPtr block, std::shared_ptr<Event> event) {
    std::lock_guard lock(mutex_);
    address_.store(block ? block->address : 0, std::memory_order_release);
    std::swap(block_, block);
    std::swap(event_, event);
  }

 private:
  void Forget() const {
    BlockPtr block;
    std::lock_guard lock(mutex_);
    address_.store(0, std::memory_order_release);
    std::swap(block_, block);
  }

  Checks& checks_;
  std::atomic<Checks::Mask> checked_by_{0};
  mutable std::mutex mutex_;
  mutable std::atomic<Address> address_{0};  // of the block
  mutable BlockPtr block_;
  std::shared_ptr<Event> event_;
  std::shared_ptr<const RunWords> words_;
};

}  // namespace hammock::cuda
