#pragma once
/// DeviceExchange: memory of a device that another library of the process owns, as data, and data
/// as memory that another library uses; nothing is copied through the host. A backend whose devices
/// have streams derives from it besides BackendImplInterface; bridges to other libraries ask for it
/// (DirectCall::exchange).
///
/// Work of the calling thread and of a stream of the other library is put in order by the caller:
///
///   exchange.ComeAfter(device, stream);       // the other library has written the inputs
///   inputs.push_back(exchange.Borrow(...));
///   results = call(inputs);
///   lent = exchange.Lend(std::move(results[0]));
///   exchange.LetComeAfter(device, stream);    // it may now free the inputs and read the results
///   ...
///   exchange.TakeBack(std::move(lent), device, stream);

#include <cstdint>
#include <memory>

#include "hammock/callback.h"
#include "hammock/export.h"
#include "hammock/lazy/backend_data.h"

namespace hammock::lazy {

class HAMMOCK_API DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;

  /// A handle of a stream as its driver has it: a CUstream.
  using Stream = uint64_t;

  /// Later work of the calling thread on the device comes after all work that `stream` was given.
  virtual void ComeAfter(const BackendDevice& device, Stream stream) const = 0;
  /// Later work of `stream` comes after all work of the calling thread on the device.
  virtual void LetComeAfter(const BackendDevice& device, Stream stream) const = 0;

  /// The address must be a multiple of it.
  virtual int64_t alignment() const = 0;
  /// Row-major elements of device memory, read where they are and never written. `release` runs
  /// when the last user is gone, on any thread.
  virtual BackendDataPtr Borrow(uint64_t memory, const Shape& shape, const BackendDevice& device,
                                Callback<void()> release) const = 0;

  /// Memory with the row-major elements of data. It may be written.
  struct Lent {
    uint64_t memory = 0;
    std::shared_ptr<void> holder;  ///< keeps it
  };
  /// The memory of `data` itself where nobody else has it, else a copy on the device.
  virtual Lent Lend(BackendDataPtr data) const = 0;
  /// The device may use the memory again, after all work that `stream` was given.
  virtual void TakeBack(Lent lent, const BackendDevice& device, Stream stream) const = 0;
};

}  // namespace hammock::lazy
