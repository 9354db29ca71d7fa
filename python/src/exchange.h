#pragma once
/// Memory that is shared with other libraries: the buffer protocol and DLPack.

#include "create.h"
#include "python_api.h"

namespace hammock::python {

/// The card on which an object with DLPack has its elements, if it is one of ours.
std::optional<Device> CardOf(PyObject* source);

/// The elements of a buffer, of DLPack's or of an object with `__array__`.
Tensor Import(PyObject* source, const Device& device, Copy copy);
Tensor ImportDLPack(PyObject* source, const Device& device, Copy copy);

/// The elements of a buffer, copied to row-major order.
HostTensor CopyBuffer(PyObject* source);

/// How DLPack names a dtype.
struct DLPackCode {
  uint8_t code, bits;
};
DLPackCode DLPackCodeOf(DType dtype);

/// Slots of Tensor. Exports are read-only views that keep the memory as it is.
int GetBuffer(PyObject* self, Py_buffer* view, int flags);
void ReleaseBuffer(PyObject* self, Py_buffer* view);

/// `__dlpack__` and `__dlpack_device__` of tensors.
void AddExchange(nb::module_& module);

}  // namespace hammock::python
