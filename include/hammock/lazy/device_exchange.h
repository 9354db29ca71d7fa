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
///
/// The same for tensors: SharedMemory and FromDeviceMemory.

#include <cstdint>
#include <memory>
#include <optional>

#include "hammock/callback.h"
#include "hammock/device.h"
#include "hammock/export.h"
#include "hammock/lazy/backend_data.h"
#include "hammock/location.h"

namespace hammock {

class Tensor;

namespace lazy {

class HAMMOCK_API DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;

  /// A handle of a stream as its driver has it: a CUstream.
  using Stream = uint64_t;
  /// The driver's legacy default stream.
  static constexpr Stream kDefaultStream = 1;

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
  /// The memory of ready data itself, into which no later run writes while the holder lives; of
  /// numbers and of memory that is borrowed itself a copy on the device. Not to be written.
  virtual Lent ShareMemory(const BackendDataPtr& data) const = 0;
};

}  // namespace lazy

/// Null where the device's backend has none.
HAMMOCK_API const lazy::DeviceExchange* ExchangeOf(const Device& device);
/// NotSupported instead of null.
HAMMOCK_API const lazy::DeviceExchange& NeededExchange(const Device& device);

/// The value of a tensor in memory of its device, row-major, not to be written; it stays as it is
/// while the result lives, whatever is written to the tensor. Waits for the value. Later work of
/// `stream` comes after what is left to do, and the memory is used again after its work of the time
/// when the result goes: the stream must live as long. Without a stream nothing is put in order
/// now, and the default stream's work is waited for at the end.
struct SharedDeviceMemory {
  uint64_t address = 0;
  std::shared_ptr<void> holder;
};
HAMMOCK_API SharedDeviceMemory SharedMemory(const Tensor& tensor,
                                            std::optional<lazy::DeviceExchange::Stream> stream,
                                            Location at = Location::current());
/// The same of memory that may be written: a copy, unless nobody else has it.
HAMMOCK_API SharedDeviceMemory LentMemory(const Tensor& tensor,
                                          std::optional<lazy::DeviceExchange::Stream> stream,
                                          Location at = Location::current());

/// A tensor of row-major elements in memory of the device, which work of `stream` has written.
/// With a `release` they are read where they are, when they are needed: the address must be aligned
/// as the exchange says, and they must not change until `release` runs, on any thread, perhaps
/// before the device is through with them (wait_device_ops). Without one they are copied before
/// this returns.
HAMMOCK_API Tensor FromDeviceMemory(uint64_t memory, const Shape& shape, const Device& device,
                                    lazy::DeviceExchange::Stream stream,
                                    Callback<void()> release = nullptr,
                                    Location at = Location::current());

}  // namespace hammock
