#pragma once
/// `x[key]` and `x[key] = value`, with what Python and NumPy allow as keys.

#include "python_api.h"

namespace hammock::python {

Tensor GetItem(const Tensor& tensor, PyObject* key);
void SetItem(Tensor& tensor, PyObject* key, PyObject* value);

}  // namespace hammock::python
