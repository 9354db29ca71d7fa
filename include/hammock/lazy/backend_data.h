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

/// Set once, either to ready or to an error. Copyable handles to shared state.
class HAMMOCK_API ReadyEvent {
 public:
  ReadyEvent();
  bool IsReady() const;                        ///< also true when it carries an error
  void Wait() const;                           ///< returns when set; does not throw the error
  std::shared_ptr<const Error> error() const;  ///< null while unset or if all went well
  void SetReady();
  void SetError(std::shared_ptr<const Error> error);
  /// Runs `fn` when set (at once if it already is), on the thread that sets it.
  void OnReady(std::function<void()> fn);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

class HAMMOCK_API BackendData {
 public:
  /// Identity, unique among live data: parameters are de-duplicated by it.
  using Handle = int64_t;

  /// Attached by the executor: which tensor it belongs to, and whether it may be donated.
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
  virtual Handle GetHandle() { return handle_; }
  /// Receives the result that this placeholder stands for.
  virtual void Assign(const BackendData& data) = 0;
  virtual bool HasValue() const = 0;
  /// Bytes held on the device, derived forms not counted.
  virtual int64_t bytes() const { return HasValue() ? shape_.bytes() : 0; }

  std::shared_ptr<Info> info() const;
  std::shared_ptr<Info> SetInfo(std::shared_ptr<Info> info);  ///< returns the former one

  /// Null for data that is ready from the start.
  const ReadyEvent* event() const { return event_.get(); }
  /// Makes this a placeholder with an event; called before it is shared.
  ReadyEvent& MakePending();
  bool IsReady() const { return !event_ || event_->IsReady(); }
  /// Waits; throws the error that the value carries.
  void WaitReady() const;

  /// Derived forms (packed weights): counted in memory info and dropped under pressure.
  struct Derived {
    std::shared_ptr<void> form;
    int64_t bytes = 0;
  };
  void AttachDerived(const std::string& key, std::shared_ptr<void> form, int64_t bytes);
  std::shared_ptr<void> GetDerived(const std::string& key) const;
  int64_t derived_bytes() const;
  void DropDerived();

 private:
  const BackendDevice device_;
  const Shape shape_;
  const Handle handle_;
  std::unique_ptr<ReadyEvent> event_;
  mutable std::mutex mutex_;
  std::shared_ptr<Info> info_;
  std::map<std::string, Derived> derived_;
};

using hammock::BackendDataPtr;

}  // namespace hammock::lazy
