#pragma once
/// Ops as Python functions: one object for each name in the registry, which calls the first
/// overload that takes the arguments. It is also the method of that name of a tensor.

#include <string>

#include "python_api.h"

namespace hammock::python {

/// The function of an op's name, made at the first use; null if there is no such op.
PyObject* FindOp(const std::string& name);

/// Makes the type, and the functions `ops()` and `find_op(name)` of the module. Adds the methods of
/// Tensor: those ops whose first argument is the tensor `self`.
void AddOps(nb::module_& module);

}  // namespace hammock::python
