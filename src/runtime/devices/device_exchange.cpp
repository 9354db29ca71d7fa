#include "hammock/lazy/device_exchange.h"

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "runtime/devices/backend_calls.h"
#include "runtime/step/executor.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {

using lazy::DeviceExchange;

const DeviceExchange* ExchangeOf(const Device& device) {
  return dynamic_cast<const DeviceExchange*>(&device.backend());
}

const DeviceExchange& NeededExchange(const Device& device) {
  if (const DeviceExchange* exchange = ExchangeOf(device)) return *exchange;
  Throw<NotSupported>(ErrorCode::kNotSupported,
                      "{} shares no memory with other libraries; copy to the CPU first",
                      device.to_string());
}

Tensor FromDeviceMemory(uint64_t memory, const Shape& shape, const Device& place,
                        DeviceExchange::Stream stream, Callback<void()> release, Location at) {
  LocationScope scope(at);
  const DeviceExchange& exchange = NeededExchange(place);
  CheckSizes("from device memory", shape.sizes());
  CheckNotForked();
  DeviceEntry& device = EntryOf(place.id());
  const bool copies = !release;
  BackendDataPtr data = CallBackend(device, "Borrow", [&](auto&) {
    exchange.ComeAfter(device.device, stream);
    return exchange.Borrow(memory, shape, device.device, std::move(release));
  });
  if (copies) {
    data = CopyDirectly(device, data);
    CallBackend(device, "WaitForDevice",
                [&](auto& backend) { backend.WaitForDevice(device.device); });
  }
  NodePtr leaf = MakeDataLeaf(data, place.id(), CurrentLocation());
  if (Context().made_leaves) Context().made_leaves->push_back(leaf);
  return Tensor::FromValue({std::move(leaf), 0});
}

}  // namespace hammock
