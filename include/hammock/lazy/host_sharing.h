#pragma once
/// HostSharing: elements of tensors in host memory that are read where they are, for bridges to
/// other languages and libraries:
///
///   HostTensor elements = SharedElements(x);  // keeps its values, whatever is written to x later

#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/lazy/backend_data.h"
#include "hammock/location.h"

namespace hammock {

class Tensor;

namespace lazy {

/// A backend whose data is in host memory derives from it besides BackendImplInterface.
class HAMMOCK_API HostSharing {
 public:
  virtual ~HostSharing() = default;
  /// The memory of ready data, into which no later run writes while the result is held, though the
  /// data be donated to it. Undefined where elements must be copied, as those of memory that is
  /// borrowed from a caller. Any thread.
  virtual HostTensor Share(const BackendDataPtr& data) const = 0;
};

}  // namespace lazy

/// As `tensor.host()`, but not to be written: memory of the device itself where it shares that.
HAMMOCK_API HostTensor SharedElements(const Tensor& tensor, Location at = Location::current());

}  // namespace hammock
