#pragma once
/// BackendData: a value that lives on a device, or a placeholder for one that is being computed.
///
/// The physical layout belongs to the backend; only MakeTensorFromComputationData promises
/// row-major. Shared by tensors, steps and caches; readiness and errors come by its event, from any
/// thread.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hammock/error.h"
#include "hammock/export.h"
#include "hammock/ir/node.h"
#include "hammock/ir/shape.h"
#include "hammock/lazy/backend_device.h"

namespace hammock::lazy {

class HAMMOCK_API BackendData {
 public:
  /// Identity, unique among live data, for backends and tools: the runtime goes by the object.
  using Handle = int64_t;

  /// Facts about the data besides its value: which tensor it belongs to (-1: none), and whether it
  /// must never be donated. The executor sets it for cached scalars.
  struct HAMMOCK_API Info {
    virtual ~Info();
  };
  struct HAMMOCK_API DeviceDataInfo : Info {
    DeviceDataInfo(int64_t tensor_id, bool read_only)
        : tensor_id(tensor_id), read_only(read_only) {}
    int64_t tensor_id;
    bool read_only;
  };

  BackendData(BackendDevice device, const Shape& shape);
  virtual ~BackendData();
  BackendData(const BackendData&) = delete;
  BackendData& operator=(const BackendData&) = delete;

  const BackendDevice& device() const { return device_; }
  const Shape& shape() const { return shape_; }
  virtual Handle GetHandle() { return reinterpret_cast<Handle>(this); }
  /// Receives the result that this placeholder stands for, by sharing its memory. Must not throw.
  /// An asynchronous result may have no value yet: both then share what will hold it.
  virtual void Assign(const BackendData& data) = 0;
  virtual bool HasValue() const = 0;
  /// Bytes held on the device, derived data not counted.
  virtual int64_t bytes() const { return HasValue() ? shape_.bytes() : 0; }

  std::shared_ptr<Info> info() const;
  std::shared_ptr<Info> SetInfo(std::shared_ptr<Info> info);  ///< returns the former one

  // ---- Readiness. Data is ready from the start unless MakePending was called before it was
  // shared; then whoever computes it sets it exactly once, to ready or to an error.
  void MakePending() { state_.store(kPending, std::memory_order_relaxed); }
  /// True also when it carries an error.
  bool IsReady() const { return state_.load(std::memory_order_acquire) != kPending; }
  /// Returns when set; does not throw the error.
  void Wait() const;
  /// A thread is about to wait. A backend that polls its device may have this thread poll.
  virtual void Hurry() const {}
  /// Null while pending or if all went well.
  std::shared_ptr<const Error> error() const;
  void SetReady();
  void SetError(std::shared_ptr<const Error> error);
  /// Runs `fn` when set (at once if it already is), on the thread that sets it.
  void OnReady(std::function<void()> fn);
  /// Waits; throws the error that the value carries.
  void WaitReady() const;

  /// Derived data (packed weights). It can be made again: the runtime drops that of a device
  /// when its memory is short, and so may the backend. Whoever runs with one holds the pointer
  /// meanwhile.
  void AttachDerived(const std::string& key, std::shared_ptr<void> form, int64_t bytes);
  std::shared_ptr<void> GetDerived(const std::string& key) const;
  int64_t derived_bytes() const;
  void DropDerived();

 private:
  enum State : uint32_t { kReady, kPending, kFailed };
  struct Extras;  // what few objects have: info, derived data, an error, callbacks
  Extras& extras() const;
  void Settle(State state);

  const BackendDevice device_;
  const Shape shape_;
  std::atomic<uint32_t> state_{kReady};
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Extras> extras_;
};

using hammock::BackendDataPtr;

/// The bytes of derived data on a device; a backend reports them in MemoryInfo::derived.
HAMMOCK_API int64_t DerivedBytes(const BackendDevice& device);
/// Drops all derived data of a device; returns their bytes.
HAMMOCK_API int64_t DropDerivedData(const BackendDevice& device);

}  // namespace hammock::lazy
