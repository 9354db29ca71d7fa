#include "convert.h"

#include <array>
#include <complex>
#include <vector>

#include "errors.h"
#include "hammock/boxing.h"
#include "reading.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

using Base = SchemaType::Base;

std::array<PyObject*, kNumDTypes> dtype_objects;

int64_t IntFrom(PyObject* number) {
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow != 0) {
    PyErr_Format(PyExc_OverflowError, "the integer %R does not fit 64 bits", number);
    ThrowPythonError();
  }
  if (value == -1 && PyErr_Occurred()) ThrowPythonError();
  return value;
}

/// An int of 64 bits, with or without a sign.
Scalar IntegerFrom(PyObject* number) {
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow > 0) {
    uint64_t large = PyLong_AsUnsignedLongLong(number);
    if (!PyErr_Occurred()) return Scalar(large);
    PyErr_Clear();
  }
  return Scalar(overflow == 0 && !PyErr_Occurred() ? value : IntFrom(number));
}

/// Of an object with `__index__`.
int64_t IndexFrom(PyObject* object) {
  nb::object number = nb::steal(PyNumber_Index(object));
  if (!number.is_valid()) ThrowPythonError();
  return IntFrom(number.ptr());
}

bool IsSequence(PyObject* object) {
  return PyList_Check(object) || PyTuple_Check(object) || PyRange_Check(object);
}

std::optional<int64_t> IntArgument(PyObject* object, TensorsAsNumbers tensors) {
  if (PyLong_CheckExact(object)) return IntFrom(object);
  if (PyBool_Check(object)) return object == Py_True;
  if (IsTensor(object)) {
    const Tensor& tensor = TensorOf(object);
    if (tensors == TensorsAsNumbers::kNo) return std::nullopt;
    if (tensor.dim() != 0 || !IsIntegral(tensor.dtype())) return std::nullopt;
    return Item(tensor).ToInt();
  }
  if (!PyIndex_Check(object)) return std::nullopt;
  return IndexFrom(object);
}

bool ConvertItem(PyObject* object, const SchemaType& type, Any& out, TensorsAsNumbers tensors) {
  switch (type.base) {
    case Base::kTensor:
      if (IsTensor(object)) {
        out = Any(TensorOf(object));
        return true;
      }
      [[fallthrough]];
    case Base::kScalar:
    case Base::kFloat: {
      std::optional<Scalar> number =
          ScalarFrom(object, type.base != Base::kTensor && tensors == TensorsAsNumbers::kRead);
      if (!number) return false;
      out = type.base == Base::kFloat ? Any(number->ToDouble()) : Any(*number);
      return true;
    }
    case Base::kInt: {
      std::optional<int64_t> number = IntArgument(object, tensors);
      if (number) out = Any(*number);
      return number.has_value();
    }
    case Base::kBool:
      if (PyBool_Check(object)) out = Any(object == Py_True);
      return PyBool_Check(object);
    case Base::kDType: {
      std::optional<DType> dtype = DTypeFrom(object);
      if (dtype) out = Any(*dtype);
      return dtype.has_value();
    }
    case Base::kDevice: {
      std::optional<std::string> name = DeviceNameFrom(object);
      if (name) out = Any(*std::move(name));
      return name.has_value();
    }
    case Base::kString:
      if (!PyUnicode_Check(object)) return false;
      [[fallthrough]];
    default: {
      try {
        out = AnyFrom(object);
      } catch (nb::python_error& error) {
        if (!error.matches(PyExc_TypeError)) throw;
        return false;
      }
      SchemaType item = type;
      item.list = false;
      return item.Accepts(out);
    }
  }
}

bool ConvertList(PyObject* object, const SchemaType& type, Any& out, TensorsAsNumbers tensors) {
  auto repeat = [&](const Any& item) { out = Any(AnyList(std::max(type.fixed_length, 1), item)); };
  if (!IsSequence(object)) {
    Any item;
    if (type.base == Base::kTensor || !ConvertItem(object, type, item, tensors)) return false;
    repeat(item);
    return true;
  }
  nb::object items = nb::steal(PySequence_Fast(object, ""));
  if (!items.is_valid()) ThrowPythonError();
  // As in PyTorch an empty list may stand for "not given", one item for all.
  Py_ssize_t size = PySequence_Fast_GET_SIZE(items.ptr());
  if (type.fixed_length > 1 && size > 1 && size != type.fixed_length) return false;
  AnyList list(static_cast<size_t>(size));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()) && i < size; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), i);
    if (item == Py_None && type.optional_items) continue;
    if (type.base == Base::kTensor && !IsTensor(item)) return false;
    if (!ConvertItem(item, type, list[static_cast<size_t>(i)], tensors)) return false;
  }
  if (type.fixed_length > 1 && size == 1) {
    repeat(list[0]);
  } else {
    out = Any(std::move(list));
  }
  return true;
}

}  // namespace

nb::object ObjectOf(DType dtype) { return nb::borrow(dtype_objects[static_cast<size_t>(dtype)]); }

std::optional<DType> DTypeFrom(PyObject* object) {
  if (Py_TYPE(object) == Py_TYPE(dtype_objects[0])) return nb::inst_ptr<DTypeObject>(object)->dtype;
  if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) return kDefaultFloat;
  if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::kI64;
  if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::kBool;
  if (!PyUnicode_Check(object)) return std::nullopt;
  const char* name = PyUnicode_AsUTF8(object);
  if (!name) ThrowPythonError();
  return DTypeFromName(name);
}

std::optional<std::string> DeviceNameFrom(PyObject* object) {
  if (nb::isinstance<Device>(object)) return nb::inst_ptr<Device>(object)->to_string();
  if (!PyUnicode_Check(object)) return std::nullopt;
  const char* name = PyUnicode_AsUTF8(object);
  if (!name) ThrowPythonError();
  return name;
}

std::optional<Scalar> ScalarFrom(PyObject* object, bool read_tensors, bool unsigned_too) {
  if (PyFloat_Check(object)) return Scalar(PyFloat_AS_DOUBLE(object));
  if (PyBool_Check(object)) return Scalar(object == Py_True);
  if (PyLong_Check(object)) return unsigned_too ? IntegerFrom(object) : Scalar(IntFrom(object));
  if (PyComplex_Check(object)) {
    return Scalar(std::complex(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object)));
  }
  if (IsTensor(object)) {
    const Tensor& tensor = TensorOf(object);
    if (!read_tensors || tensor.numel() != 1) return std::nullopt;
    return Item(tensor);
  }
  if (PyIndex_Check(object)) {
    PyObject* ndim = PyObject_GetAttrString(object, "ndim");  // NumPy arrays are no numbers
    if (!ndim) {
      PyErr_Clear();
      return Scalar(IndexFrom(object));
    }
    bool is_scalar = PyLong_Check(ndim) && PyLong_AsLong(ndim) == 0;
    Py_DECREF(ndim);
    if (!is_scalar) return std::nullopt;
    nb::object number = nb::steal(PyNumber_Index(object));
    if (number.is_valid()) {
      return unsigned_too ? IntegerFrom(number.ptr()) : Scalar(IntFrom(number.ptr()));
    }
    PyErr_Clear();
  }
  // NumPy's scalars: a number of another library with `__float__` and no dims.
  PyNumberMethods* methods = Py_TYPE(object)->tp_as_number;
  if (!methods || !methods->nb_float || PyComplex_Check(object)) return std::nullopt;
  nb::object ndim = nb::steal(PyObject_GetAttrString(object, "ndim"));
  if (!ndim.is_valid()) PyErr_Clear();
  if (ndim.is_valid() && !(PyLong_Check(ndim.ptr()) && PyLong_AsLong(ndim.ptr()) == 0))
    return std::nullopt;
  nb::object imag = nb::steal(PyObject_GetAttrString(object, "__complex__"));
  if (imag.is_valid()) return std::nullopt;
  PyErr_Clear();
  nb::object number = nb::steal(PyNumber_Float(object));
  if (!number.is_valid()) {
    PyErr_Clear();
    return std::nullopt;
  }
  return Scalar(PyFloat_AS_DOUBLE(number.ptr()));
}

bool Convert(PyObject* object, const SchemaType& type, Any& out, TensorsAsNumbers tensors) {
  if (object == Py_None && type.optional) {
    out = Any();
    return true;
  }
  return type.list ? ConvertList(object, type, out, tensors)
                   : ConvertItem(object, type, out, tensors);
}

Any AnyFrom(PyObject* object) {
  if (object == Py_None) return Any();
  if (IsTensor(object)) return Any(TensorOf(object));
  if (PyUnicode_Check(object)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (!text) ThrowPythonError();
    return Any(std::string(text, static_cast<size_t>(size)));
  }
  if (IsSequence(object)) {
    if (Py_EnterRecursiveCall(" while reading nested lists")) ThrowPythonError();
    AnyList list;
    try {
      for (nb::handle item : nb::borrow(object)) list.push_back(AnyFrom(item.ptr()));
    } catch (...) {
      Py_LeaveRecursiveCall();
      throw;
    }
    Py_LeaveRecursiveCall();
    return PyTuple_Check(object) ? Any::Tuple(std::move(list)) : Any(std::move(list));
  }
  if (PyDict_Check(object)) {
    AnyDict dict;
    for (auto [key, value] : nb::borrow<nb::dict>(object)) {
      if (!PyUnicode_Check(key.ptr())) ThrowTypeError("keys of a dict must be strings");
      dict[nb::cast<nb::str>(key).c_str()] = AnyFrom(value.ptr());
    }
    return Any(std::move(dict));
  }
  if (std::optional<DType> dtype = DTypeFrom(object)) return Any(*dtype);
  if (std::optional<std::string> device = DeviceNameFrom(object)) return Any(*std::move(device));
  if (nb::isinstance<Generator>(object)) {
    return boxing::FromGenerator(*nb::inst_ptr<Generator>(object));
  }
  if (std::optional<Scalar> number = ScalarFrom(object, false)) return Any(*number);
  ThrowTypeError(std::string("an object of type '") + Py_TYPE(object)->tp_name +
                 "' is no tensor, number, string, list, tuple or dict");
}

PyObject* ObjectFrom(const Any& value) {
  switch (value.kind()) {
    case Any::Kind::kNone:
    case Any::Kind::kObject:
    case Any::Kind::kGraph:
      Py_RETURN_NONE;
    case Any::Kind::kBool:
      return PyBool_FromLong(value.ToBool());
    case Any::Kind::kInt:
      return PyLong_FromLongLong(value.ToInt());
    case Any::Kind::kFloat:
      return PyFloat_FromDouble(value.ToDouble());
    case Any::Kind::kComplex: {
      const Scalar number = value.ToScalar();
      return PyComplex_FromDoubles(number.ToDouble(), number.imag());
    }
    case Any::Kind::kString: {
      const std::string& text = value.ToStringRef();
      return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
    }
    case Any::Kind::kDType:
      return ObjectOf(value.ToDType()).release().ptr();
    case Any::Kind::kTensor:
      return Wrap(Tensor(value.ToTensor()));
    case Any::Kind::kList:
    case Any::Kind::kTuple: {
      const AnyList& items = value.ToList();
      nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
      for (size_t i = 0; i < items.size(); ++i) {
        PyObject* item = ObjectFrom(items[i]);
        if (!item) ThrowPythonError();
        PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), item);
      }
      return tuple.release().ptr();
    }
    case Any::Kind::kDict: {
      nb::dict dict;
      for (const auto& [key, item] : value.ToDict())
        dict[key.c_str()] = nb::steal(ObjectFrom(item));
      return dict.release().ptr();
    }
  }
  Py_RETURN_NONE;
}

void AddDTypes(nb::module_& module) {
  nb::class_<DTypeObject>(module, "dtype",
                          "The element type of a tensor, such as `hammock.float32`.")
      .def("__repr__",
           [](const DTypeObject& self) {
             return nb::str(("hammock." + std::string(InfoOf(self.dtype).torch_name)).c_str());
           })
      .def("__str__",
           [](const DTypeObject& self) {
             return nb::str(("hammock." + std::string(InfoOf(self.dtype).torch_name)).c_str());
           })
      .def("__reduce__",
           [](const DTypeObject& self) {
             return nb::str(std::string(InfoOf(self.dtype).torch_name).c_str());
           })
      .def_prop_ro(
          "name",
          [](const DTypeObject& self) {
            return nb::str(std::string(InfoOf(self.dtype).torch_name).c_str());
          },
          "\"float32\"")
      .def_prop_ro(
          "short_name",
          [](const DTypeObject& self) { return nb::str(std::string(NameOf(self.dtype)).c_str()); },
          "\"f32\", as graphs are printed")
      .def_prop_ro(
          "itemsize", [](const DTypeObject& self) { return (InfoOf(self.dtype).bits + 7) / 8; },
          "Bytes of an element.")
      .def_prop_ro("is_floating_point", [](const DTypeObject& self) { return IsFloat(self.dtype); })
      .def_prop_ro("is_signed", [](const DTypeObject& self) { return IsSigned(self.dtype); })
      .def_prop_ro(
          "min", [](const DTypeObject& self) { return InfoOf(self.dtype).lowest; },
          "The smallest finite value.")
      .def_prop_ro(
          "max", [](const DTypeObject& self) { return InfoOf(self.dtype).highest; },
          "The largest finite value.")
      .def_prop_ro(
          "eps", [](const DTypeObject& self) { return InfoOf(self.dtype).epsilon; },
          "The distance from 1 to the next value; 0 for integers.");
  for (const DTypeInfo& info : kDTypeTable) {
    nb::object object = nb::cast(DTypeObject{info.dtype});
    dtype_objects[static_cast<size_t>(info.dtype)] = object.ptr();
    module.attr(std::string(info.torch_name).c_str()) = object;
    object.release();  // lives as long as the process
  }
}

}  // namespace hammock::python
