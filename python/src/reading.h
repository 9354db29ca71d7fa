#pragma once
/// Reading values: waits without the GIL, and Ctrl-C ends a wait.

#include "hammock/host_tensor.h"
#include "hammock/scalar.h"
#include "hammock/tensor.h"

namespace hammock::python {

/// Not to be written: it may be the memory of the device.
HostTensor Read(const Tensor& tensor);
/// The value of a tensor of one element.
Scalar Item(const Tensor& tensor);
/// Lets a wait of the main thread end by Ctrl-C.
void AddInterrupts();

}  // namespace hammock::python
