#pragma once
/// DeviceData: a value on a device of the CUDA backend.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "backends/cuda/driver/checks.h"
#include "backends/cuda/driver/device_memory.h"
#include "backends/cuda/driver/fault_words.h"
#include "backends/cuda/driver/varying_numbers.h"
#include "base/throw.h"
#include "hammock/lazy/backend_data.h"

namespace hammock::cuda {

/// A value in a block of device memory; the block is null while it is a placeholder or after it was
/// donated, and for a number that needed none so far. The value is valid after `event`: for later
/// work of that stream, for other streams that wait for the event, and for the host. While it is
/// pending, `words` say whether the run that computes it has failed.
class DeviceData : public lazy::BackendData {
 public:
  /// A pending value is set ready by `checks` of the streams `checked_by`.
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

  DeviceData(const lazy::BackendDevice& device, const Shape& shape, Checks& checks,
             const NumberBytes& number)
      : BackendData(device, shape), checks_(checks), number_(number) {}

  /// Takes the value of `data`. If that is pending, it gives up its memory: it only waits for the
  /// report of its run, which may come after this placeholder is gone.
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
  bool HasValue() const override { return number_ || address() != 0; }
  void Hurry() const override {
    checks_.HelpUntil(checked_by(), [this] { return IsReady(); });
  }

  /// The number of the host that it is; null if it is none. Memory is only taken for it if a run
  /// needs some.
  const NumberBytes* number() const { return number_ ? &*number_ : nullptr; }

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
  /// Block and event, or null. They stay valid until the run of the argument was launched.
  std::pair<Block*, const Event*> Look() const {
    std::lock_guard lock(mutex_);
    return {block_.get(), event_.get()};
  }
  Checks::Mask checked_by() const { return checked_by_.load(std::memory_order_relaxed); }
  std::shared_ptr<const RunWords> words() const {
    std::lock_guard lock(mutex_);
    return words_;
  }
  /// Leaves a block that another thread has set.
  void SetIfNone(BlockPtr block, std::shared_ptr<Event> event) {
    std::lock_guard lock(mutex_);
    if (block_) return;
    address_.store(block->address, std::memory_order_release);
    block_ = std::move(block);
    event_ = std::move(event);
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
  const std::optional<NumberBytes> number_;
};

}  // namespace hammock::cuda
