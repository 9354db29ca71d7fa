#pragma once
/// Recording at the level of Values, below Tensor.

#include <span>

#include "hammock/ir/node.h"

namespace hammock {

/// Infers types and makes a node; checks devices. Errors name the op and carry the location.
/// `device` is where a node goes whose operands are all lifted scalars; by default the default
/// device.
NodePtr RecordNode(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
                   LocationId location, DeviceId device = kNoDevice);
/// As RecordNode, with the history of the first output.
Value Record(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
             LocationId location, DeviceId device = kNoDevice);
/// As above for a node without operands.
NodePtr RecordNodeOn(const OpDef& op, std::span<const Attr> attrs, DeviceId device,
                     LocationId location);

/// A leaf whose value is in host memory until a step needs it on its device.
class HostTensor;
NodePtr MakeHostLeaf(const HostTensor& host, DeviceId device, LocationId location);
/// A leaf of data that is on its device.
NodePtr MakeDataLeaf(const BackendDataPtr& data, DeviceId device, LocationId location);

/// The common device of operands; lifted scalars go with any. `b` is the device found so far.
DeviceId CommonDevice(const OpDef& op, DeviceId a, DeviceId b);

/// The current value of a tensor, owning; empty for an undefined one.
class Tensor;
Value ValueOf(const char* op, const Tensor& tensor);

}  // namespace hammock
