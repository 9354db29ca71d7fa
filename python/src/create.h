#pragma once
/// Tensors from Python values and from other libraries' memory.

#include <optional>

#include "python_api.h"

namespace hammock::python {

/// Memory of others is copied at the call, shared where it is read-only, or always shared.
enum class Copy { kAlways, kIfWritable, kNever };

/// From a number, nested lists, a tensor, or an object with the buffer protocol or DLPack.
/// TypeError for others.
Tensor MakeTensor(PyObject* data, std::optional<DType> dtype, const Device& device, Copy copy);

/// The default one for None.
Device DeviceArgument(nb::handle object);

/// Whether the object has elements that can be imported: a buffer or DLPack.
bool CanImport(PyObject* object);

/// `tensor`, `asarray`, `from_numpy`, `from_dlpack`.
void AddCreation(nb::module_& module);

}  // namespace hammock::python
