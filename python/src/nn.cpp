/// The call of a module, and what quantisation needs of C++.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "convert.h"
#include "errors.h"
#include "hammock/nn/quantize.h"
#include "location.h"
#include "parts.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

/// `module(...)`: its `forward` inside of a ModuleCall. Hooks are left to `_call_hooked`.
PyObject* CallModule(PyObject* self, PyObject* args, PyObject* kwargs) {
  static PyObject* const forward = PyUnicode_InternFromString("forward");
  static PyObject* const hooks = PyUnicode_InternFromString("_hooks");
  static PyObject* const hooked = PyUnicode_InternFromString("_call_hooked");
  PyObject* registered = PyObject_GetAttr(self, hooks);
  if (!registered) return nullptr;
  Py_DECREF(registered);  // the class or the module keeps it
  PyObject* method = PyObject_GetAttr(self, registered == Py_None ? forward : hooked);
  if (!method) return nullptr;
  ModuleCall call(self);
  PyObject* result = PyObject_Call(method, args, kwargs);
  Py_DECREF(method);
  return result;
}

PyMethodDef call_module = {"__call__",
                           reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(CallModule)),
                           METH_VARARGS | METH_KEYWORDS, "Runs `forward` and the hooks."};

DType DTypeArgument(nb::handle object) {
  if (std::optional<DType> dtype = DTypeFrom(object.ptr())) return *dtype;
  throw TypeError(ErrorCode::kSchema, "dtype must be a dtype such as hammock.int8");
}

}  // namespace

void AddModules(nb::module_& module) {
  module.def("set_module_call", [](nb::handle type) {
    auto* kind = reinterpret_cast<PyTypeObject*>(type.ptr());
    nb::object method = nb::steal(PyDescr_NewMethod(kind, &call_module));
    if (!method.is_valid()) ThrowPythonError();
    type.attr("__call__") = method;
  });
  module.def("module_tree_changed", ModuleTreeChanged);
  using nn::MinMaxObserver;
  nb::class_<MinMaxObserver>(module, "MinMaxObserver",
                             "The range of the values that it has seen, on their device.")
      .def(
          "__init__",
          [](MinMaxObserver* self, double momentum) {
            CallerLine line;
            new (self) MinMaxObserver(momentum);
          },
          nb::arg("momentum") = 1.0,
          "With `momentum` below 1, later values move the range by that part of the way.")
      .def(
          "observe",
          [](MinMaxObserver& self, const Tensor& values) {
            CallerLine line;
            self.observe(values);
          },
          nb::arg("values"))
      .def_prop_ro("empty", &MinMaxObserver::empty, "Whether it has seen no values.")
      .def(
          "scale",
          [](const MinMaxObserver& self, nb::handle dtype) {
            CallerLine line;
            MinMaxObserver::Scale scale = self.scale(DTypeArgument(dtype), Location());
            return std::pair(scale.scale, scale.zero_point);
          },
          nb::arg("dtype"),
          "(scale, zero point) for a dtype. The range includes 0, which is exact.");
  module.def(
      "quantization_scale",
      [](const Tensor& self, const std::vector<int64_t>& sizes, nb::handle dtype) {
        CallerLine line;
        return quantization_scale(self, Dims(sizes), DTypeArgument(dtype), Location());
      },
      nb::arg("self"), nb::arg("sizes"), nb::arg("dtype"),
      "The scale of blocks, of `sizes`, whose largest magnitude becomes the largest of `dtype`: "
      "for quantisation without zero points. Of float32, and never 0.");
}

}  // namespace hammock::python
