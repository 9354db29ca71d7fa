#pragma once
/// The Python object of a tensor: a handle, as in C++. Two objects may be the same tensor.

#include <utility>

#include "python_api.h"

namespace hammock::python {

struct TensorObject {
  PyObject_HEAD PyObject* weak_references;
  Tensor tensor;
};

/// `hammock.Tensor`; set by AddTensor.
extern PyTypeObject* tensor_type;

inline bool IsTensor(PyObject* object) {
  return Py_TYPE(object) == tensor_type || PyType_IsSubtype(Py_TYPE(object), tensor_type);
}
inline Tensor& TensorOf(PyObject* object) {
  return reinterpret_cast<TensorObject*>(object)->tensor;
}
/// A new object; None for an undefined tensor.
PyObject* Wrap(Tensor&& tensor);
/// The same as an object of a subclass of Tensor.
PyObject* WrapAs(PyTypeObject* type, Tensor&& tensor);

void AddTensor(nb::module_& module);

}  // namespace hammock::python

/// Functions bound by nanobind take and return tensors.
template <>
struct nanobind::detail::type_caster<hammock::Tensor> {
  NB_TYPE_CASTER(hammock::Tensor, const_name("hammock.Tensor"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!hammock::python::IsTensor(source.ptr())) return false;
    value = hammock::python::TensorOf(source.ptr());
    return true;
  }
  static handle from_cpp(hammock::Tensor tensor, rv_policy, cleanup_list*) noexcept {
    return hammock::python::Wrap(std::move(tensor));
  }
};
