#pragma once
/// Memory of the caller that tensors read in place: HostTensor::Borrow.

#include "hammock/host_tensor.h"
#include "hammock/location.h"

namespace hammock {

bool IsBorrowed(const HostTensor& tensor);
/// Whether it was borrowed with the option `check_borrowed`, so that changes are found.
bool IsWatched(const HostTensor& tensor);
/// ValueError where watched memory is not what it was when it was borrowed.
void CheckUnchanged(const HostTensor& tensor, LocationId made_at);

}  // namespace hammock
