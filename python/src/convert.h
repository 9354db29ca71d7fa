#pragma once
/// Between Python objects and boxed values.

#include <optional>
#include <string>

#include "hammock/ir/any.h"
#include "hammock/ir/schema.h"
#include "python_api.h"

namespace hammock::python {

/// `hammock.float32`: one object for each dtype.
struct DTypeObject {
  DType dtype;
};
nb::object ObjectOf(DType dtype);
/// From a dtype, its name, or Python's bool, int and float; nothing for another object.
std::optional<DType> DTypeFrom(PyObject* object);

/// From a Device or a name; nothing for another object.
std::optional<std::string> DeviceNameFrom(PyObject* object);

/// A bool, int or float, of NumPy too; a tensor of one element is read where `read_tensors`.
/// Nothing for another object; throws where an int does not fit 64 bits, signed ones unless
/// `unsigned_too`.
std::optional<Scalar> ScalarFrom(PyObject* object, bool read_tensors, bool unsigned_too = false);

/// Whether tensors of one element stand for numbers, which computes them.
enum class TensorsAsNumbers { kNo, kRead };

/// Whether the object can be passed for an argument of that type; `out` receives it. A number
/// stands for a list of one. Throws where an int does not fit 64 bits.
bool Convert(PyObject* object, const SchemaType& type, Any& out,
             TensorsAsNumbers tensors = TensorsAsNumbers::kRead);

/// Any object, by its own type; throws TypeError for one that Hammock does not know.
Any AnyFrom(PyObject* object);
/// A new reference. Several results are a tuple.
PyObject* ObjectFrom(const Any& value);

void AddDTypes(nb::module_& module);

}  // namespace hammock::python
