/// The type `hammock.Tensor`: slots for what Python's syntax does, typed from end to end; its other
/// methods are made from the records (op_function.cpp).

#include <Python.h>
#include <structmember.h>

#include "convert.h"
#include "errors.h"
#include "exchange.h"
#include "hammock/autograd.h"
#include "hammock/ops.h"
#include "hammock/print.h"
#include "indexing.h"
#include "location.h"
#include "reading.h"
#include "tensor_object.h"

namespace hammock::python {

PyTypeObject* tensor_type = nullptr;

namespace {

// ---- Objects. Most die young: a few are kept for the next ones.

constexpr int kMaxFree = 256;
PyObject* free_objects[kMaxFree];
int num_free = 0;

void Dealloc(PyObject* self) {
  auto* object = reinterpret_cast<TensorObject*>(self);
  if (object->weak_references) [[unlikely]]
    PyObject_ClearWeakRefs(self);
  object->tensor.~Tensor();
  PyTypeObject* type = Py_TYPE(self);
  if (type == tensor_type && num_free < kMaxFree) {
    free_objects[num_free++] = self;
  } else {
    type->tp_free(self);
  }
  Py_DECREF(type);
}

/// Runs `call`, which records, for the calling line.
template <class Call>
[[gnu::always_inline]] inline PyObject* Recorded(Call&& call) {
  return Guarded([&]() -> PyObject* {
    CallerLine line;
    return Wrap(call());
  });
}

// ---- Operators

const Location kNowhere;  // the scope of the calling line is open

using BinaryFn = Tensor (*)(const Tensor&, const TensorArg&, Location);
using ReflectedFn = Tensor (*)(const Scalar&, const Tensor&, Location);
using InPlaceFn = Tensor& (*)(Tensor&, const TensorArg&, Location);

/// An int beyond 64 bits is an OverflowError; anything but a number or tensor has no value.
std::optional<Scalar> Number(PyObject* object) { return ScalarFrom(object, false); }

template <BinaryFn call, ReflectedFn reflected>
PyObject* Binary(PyObject* a, PyObject* b) {
  if (IsTensor(a)) [[likely]] {
    if (IsTensor(b)) [[likely]] {
      return Recorded(
          [&] { return call(TensorOf(a), TensorArg(TensorOf(b), kNowhere), kNowhere); });
    }
    if (PyFloat_CheckExact(b)) {
      return Recorded(
          [&] { return call(TensorOf(a), TensorArg(PyFloat_AS_DOUBLE(b), kNowhere), kNowhere); });
    }
  }
  return Guarded([&]() -> PyObject* {
    std::optional<Scalar> number = Number(IsTensor(a) ? b : a);
    if (!number) Py_RETURN_NOTIMPLEMENTED;
    CallerLine line;
    return Wrap(IsTensor(a) ? call(TensorOf(a), TensorArg(*number, kNowhere), kNowhere)
                            : reflected(*number, TensorOf(b), kNowhere));
  });
}

template <InPlaceFn call>
PyObject* InPlace(PyObject* self, PyObject* other) {
  return Guarded([&]() -> PyObject* {
    CallerLine line;
    if (IsTensor(other)) {
      call(TensorOf(self), TensorArg(TensorOf(other), kNowhere), kNowhere);
    } else {
      std::optional<Scalar> number = Number(other);
      if (!number) Py_RETURN_NOTIMPLEMENTED;
      call(TensorOf(self), TensorArg(*number, kNowhere), kNowhere);
    }
    return Py_NewRef(self);
  });
}

template <Tensor (*call)(const Tensor&, Location)>
PyObject* Unary(PyObject* self) {
  return Recorded([&] { return call(TensorOf(self), kNowhere); });
}

PyObject* Power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow: tensors have no third argument");
    return nullptr;
  }
  return Binary<static_cast<BinaryFn>(pow), static_cast<ReflectedFn>(pow)>(a, b);
}
PyObject* InPlacePower(PyObject* a, PyObject* b, PyObject*) {
  return InPlace<static_cast<InPlaceFn>(pow_)>(a, b);
}

PyObject* MatMul(PyObject* a, PyObject* b) {
  if (!IsTensor(a) || !IsTensor(b)) Py_RETURN_NOTIMPLEMENTED;
  return Recorded([&] { return matmul(TensorOf(a), TensorOf(b), kNowhere); });
}

PyObject* DivMod(PyObject* a, PyObject* b) {
  PyObject* quotient =
      Binary<static_cast<BinaryFn>(floor_divide), static_cast<ReflectedFn>(floor_divide)>(a, b);
  if (!quotient || quotient == Py_NotImplemented) return quotient;
  PyObject* rest =
      Binary<static_cast<BinaryFn>(remainder), static_cast<ReflectedFn>(remainder)>(a, b);
  if (!rest) {
    Py_DECREF(quotient);
    return nullptr;
  }
  return Py_BuildValue("NN", quotient, rest);
}

template <BinaryFn call>
PyObject* Compare(PyObject* self, PyObject* other) {
  if (IsTensor(other)) {
    return Recorded(
        [&] { return call(TensorOf(self), TensorArg(TensorOf(other), kNowhere), kNowhere); });
  }
  return Guarded([&]() -> PyObject* {
    std::optional<Scalar> number = Number(other);
    if (!number) Py_RETURN_NOTIMPLEMENTED;
    CallerLine line;
    return Wrap(call(TensorOf(self), TensorArg(*number, kNowhere), kNowhere));
  });
}

PyObject* RichCompare(PyObject* self, PyObject* other, int relation) {
  switch (relation) {
    case Py_LT:
      return Compare<static_cast<BinaryFn>(lt)>(self, other);
    case Py_LE:
      return Compare<static_cast<BinaryFn>(le)>(self, other);
    case Py_EQ:
      return Compare<static_cast<BinaryFn>(eq)>(self, other);
    case Py_NE:
      return Compare<static_cast<BinaryFn>(ne)>(self, other);
    case Py_GT:
      return Compare<static_cast<BinaryFn>(gt)>(self, other);
    default:
      return Compare<static_cast<BinaryFn>(ge)>(self, other);
  }
}

/// By the tensor, which several objects may be handles of.
Py_hash_t Hash(PyObject* self) { return _Py_HashPointer(TensorOf(self).impl()); }

// ---- Conversions to Python's numbers, which read

int Truth(PyObject* self) {
  return Guarded(
      [&] {
        CallerLine line;
        const Tensor& tensor = TensorOf(self);
        if (tensor.numel() != 1) {
          throw ValueError(ErrorCode::kValue, "bool: the truth of " + tensor.shape().to_string() +
                                                  " is ambiguous: use any() or all()");
        }
        return Item(tensor).ToBool() ? 1 : 0;
      },
      -1);
}

PyObject* PythonNumber(const Scalar& value) {
  if (value.IsComplex()) return PyComplex_FromDoubles(value.ToDouble(), value.imag());
  if (value.IsFloating()) return PyFloat_FromDouble(value.ToDouble());
  if (value.IsBool()) return PyBool_FromLong(value.ToBool());
  if (value.dtype() == DType::kU64) return PyLong_FromUnsignedLongLong(value.bits());
  return PyLong_FromLongLong(value.ToInt());
}

PyObject* ItemOf(PyObject* self, PyObject*) {
  return Guarded([&] {
    CallerLine line;
    return PythonNumber(Item(TensorOf(self)));
  });
}

PyObject* Float(PyObject* self) {
  return Guarded([&] {
    CallerLine line;
    return PyFloat_FromDouble(Item(TensorOf(self)).ToDouble());
  });
}

PyObject* Int(PyObject* self) {
  PyObject* number = ItemOf(self, nullptr);
  if (!number) return nullptr;
  PyObject* result = PyNumber_Long(number);
  Py_DECREF(number);
  return result;
}

PyObject* AsIndex(PyObject* self) {
  return Guarded([&]() -> PyObject* {
    const Tensor& tensor = TensorOf(self);
    CallerLine line;
    if (tensor.dim() != 0 || !IsIntegral(tensor.dtype())) {
      throw TypeError(
          ErrorCode::kDTypeMismatch,
          "only integer tensors without dims are indices, not " + tensor.shape().to_string());
    }
    return PyNumber_Long(nb::steal(PythonNumber(Item(tensor))).ptr());
  });
}

PyObject* Complex(PyObject* self, PyObject*) {
  return Guarded([&] {
    CallerLine line;
    const Scalar value = Item(TensorOf(self));
    return PyComplex_FromDoubles(value.ToDouble(), value.imag());
  });
}

/// Elements from `place` on as nested lists.
nb::object Nested(const HostTensor& host, int dim, int64_t& place) {
  if (dim == host.shape().rank()) return nb::steal(PythonNumber(host.at(place++)));
  nb::object list = nb::steal(PyList_New(host.shape().size(dim)));
  if (!list.is_valid()) ThrowPythonError();
  for (int64_t i = 0; i < host.shape().size(dim); ++i) {
    PyList_SET_ITEM(list.ptr(), i, Nested(host, dim + 1, place).release().ptr());
  }
  return list;
}

PyObject* ToList(PyObject* self, PyObject*) {
  return Guarded([&] {
    CallerLine line;
    int64_t place = 0;
    return Nested(Read(TensorOf(self)), 0, place).release().ptr();
  });
}

// ---- Sequences

Py_ssize_t Length(PyObject* self) {
  return Guarded(
      [&]() -> Py_ssize_t {
        CallerLine line;
        const Tensor& tensor = TensorOf(self);
        if (tensor.dim() == 0)
          throw TypeError(ErrorCode::kValue, "len: a 0-d tensor has no length");
        return tensor.shape().size(0);
      },
      Py_ssize_t{-1});
}

PyObject* Iterate(PyObject* self) {
  return Guarded([&]() -> PyObject* {
    CallerLine line;
    const Tensor& tensor = TensorOf(self);
    if (tensor.dim() == 0) throw TypeError(ErrorCode::kValue, "iter: a 0-d tensor has no rows");
    nb::list rows;
    for (Tensor& row : unbind(tensor, 0, kNowhere)) rows.append(nb::steal(Wrap(std::move(row))));
    return PyObject_GetIter(rows.ptr());
  });
}

int Contains(PyObject* self, PyObject* value) {
  PyObject* equal = RichCompare(self, value, Py_EQ);
  if (!equal) return -1;
  if (equal == Py_NotImplemented) {
    Py_DECREF(equal);
    return 0;
  }
  nb::object held = nb::steal(equal);
  return Guarded(
      [&] {
        CallerLine line;
        return Item(any(TensorOf(held.ptr()))).ToBool() ? 1 : 0;
      },
      -1);
}

PyObject* Subscript(PyObject* self, PyObject* key) {
  return Recorded([&] { return GetItem(TensorOf(self), key); });
}

int AssignSubscript(PyObject* self, PyObject* key, PyObject* value) {
  return Guarded(
      [&] {
        CallerLine line;
        if (!value)
          throw TypeError(ErrorCode::kValue, "del: elements of a tensor cannot be deleted");
        SetItem(TensorOf(self), key, value);
        return 0;
      },
      -1);
}

// ---- Text

PyObject* Repr(PyObject* self) {
  return Guarded([&] {
    CallerLine line;
    const Tensor& tensor = TensorOf(self);
    std::string text;
    if (Shape shape = tensor.shape(); shape.numel() == 0) {
      text = "tensor([], size=" + ToString(shape.sizes());
    } else {
      text = FormatElements(Read(tensor), get_printoptions());
      for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 8) {
        text.insert(at + 1, "       ");
      }
      text = "tensor(" + text;
    }
    DType dtype = tensor.dtype();
    if (dtype != kDefaultFloat && dtype != DType::kI64 && dtype != DType::kBool) {
      text += ", dtype=hammock." + std::string(InfoOf(dtype).torch_name);
    }
    if (tensor.device() != Device()) text += ", device='" + tensor.device().to_string() + "'";
    if (tensor.requires_grad()) text += ", requires_grad=True";
    text += ")";
    return PyUnicode_FromString(text.c_str());
  });
}

PyObject* Format(PyObject* self, PyObject* spec) {
  return Guarded([&]() -> PyObject* {
    CallerLine line;
    if (PyUnicode_GetLength(spec) == 0 || TensorOf(self).dim() != 0) {
      if (PyUnicode_GetLength(spec) == 0) return PyObject_Str(self);
      throw TypeError(ErrorCode::kValue, "format: only a tensor without dims takes a format, not " +
                                             TensorOf(self).shape().to_string());
    }
    return PyObject_Format(nb::steal(PythonNumber(Item(TensorOf(self)))).ptr(), spec);
  });
}

// ---- Facts

PyObject* Sizes(PyObject* self, void*) {
  return Guarded([&] {
    CallerLine line;
    const Dims& sizes = TensorOf(self).shape().sizes();
    PyObject* tuple = PyTuple_New(sizes.size());
    for (int i = 0; tuple && i < sizes.size(); ++i) {
      PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(sizes[i]));
    }
    return tuple;
  });
}

/// A property that a function of the tensor gives.
template <auto get>
PyObject* Property(PyObject* self, void*) {
  return Guarded([&] {
    CallerLine line;
    return nb::cast(get(TensorOf(self))).release().ptr();
  });
}

PyObject* SizeMethod(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count == 0) return Sizes(self, nullptr);
  return Guarded([&]() -> PyObject* {
    CallerLine line;
    Any dim;
    if (count > 1 || !Convert(args[0], SchemaType{.base = SchemaType::Base::kInt}, dim)) {
      throw TypeError(ErrorCode::kSchema,
                      "size: takes one dim; its signature is size(int? dim=None)");
    }
    return PyLong_FromLongLong(TensorOf(self).size(dim.ToInt()));
  });
}

nb::object TransposedOf(const Tensor& tensor) { return nb::cast(tensor.T(kNowhere)); }
nb::object MatrixTransposeOf(const Tensor& tensor) { return nb::cast(tensor.mT(kNowhere)); }
nb::object DTypeOfTensor(const Tensor& tensor) { return ObjectOf(tensor.dtype(kNowhere)); }
Device DeviceOf(const Tensor& tensor) { return tensor.device(kNowhere); }
int64_t ElementSize(const Tensor& tensor) { return BytesOf(tensor.dtype(kNowhere), 1); }
Tensor GradOf(const Tensor& tensor) { return tensor.grad(kNowhere); }
Tensor DetachedOf(const Tensor& tensor) { return tensor.detach(kNowhere); }

int SetGrad(PyObject* self, PyObject* value, void*) {
  return Guarded(
      [&] {
        CallerLine line;
        if (value && value != Py_None && !IsTensor(value)) {
          throw TypeError(ErrorCode::kSchema, "grad: must be a Tensor or None");
        }
        bool none = !value || value == Py_None;
        TensorOf(self).set_grad(none ? Tensor() : TensorOf(value), kNowhere);
        return 0;
      },
      -1);
}

int SetRequiresGrad(PyObject* self, PyObject* value, void*) {
  return Guarded(
      [&] {
        CallerLine line;
        int truth = value ? PyObject_IsTrue(value) : 0;
        if (truth < 0) ThrowPythonError();
        TensorOf(self).requires_grad_(truth != 0, kNowhere);
        return 0;
      },
      -1);
}

int SetData(PyObject* self, PyObject* value, void*) {
  return Guarded(
      [&] {
        CallerLine line;
        if (!value || !IsTensor(value))
          throw TypeError(ErrorCode::kSchema, "data: must be a Tensor");
        NoGradGuard no_grad;
        TensorOf(self).copy_(TensorOf(value), kNowhere);
        return 0;
      },
      -1);
}

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return Guarded([&]() -> PyObject* {
    PyObject* source = nullptr;
    if ((kwargs && PyDict_GET_SIZE(kwargs) > 0) || !PyArg_ParseTuple(args, "O", &source)) {
      PyErr_Clear();
      ThrowTypeError(
          "Tensor(tensor): another handle of a tensor; values are made by hammock.tensor");
    }
    if (!IsTensor(source)) {
      ThrowTypeError(std::string("Tensor: takes a Tensor, not ") + Py_TYPE(source)->tp_name +
                     "; values are made by hammock.tensor");
    }
    return WrapAs(type, Tensor(TensorOf(source)));
  });
}

template <class Function>
void* Slot(Function* function) {
  return reinterpret_cast<void*>(function);
}
#define HAMMOCK_BINARY(name) \
  Slot(Binary<static_cast<BinaryFn>(name), static_cast<ReflectedFn>(name)>)
#define HAMMOCK_IN_PLACE(name) Slot(InPlace<static_cast<InPlaceFn>(name)>)
#define HAMMOCK_UNARY(name) Slot(Unary<static_cast<Tensor (*)(const Tensor&, Location)>(name)>)

PyGetSetDef properties[] = {
    {"shape", Sizes, nullptr, "The sizes, as a tuple.", nullptr},
    {"dtype", Property<DTypeOfTensor>, nullptr, "The element type.", nullptr},
    {"device", Property<DeviceOf>, nullptr, "Where it lives.", nullptr},
    {"ndim", Property<[](const Tensor& t) { return t.dim(kNowhere); }>, nullptr,
     "How many dims it has.", nullptr},
    {"itemsize", Property<ElementSize>, nullptr, "Bytes of an element.", nullptr},
    {"nbytes", Property<[](const Tensor& t) { return t.shape(kNowhere).bytes(); }>, nullptr,
     "Bytes of all elements.", nullptr},
    {"T", Property<TransposedOf>, nullptr, "All dims in reverse order.", nullptr},
    {"mT", Property<MatrixTransposeOf>, nullptr, "The last two dims exchanged.", nullptr},
    {"grad", Property<GradOf>, SetGrad, "What `backward` has accumulated, or None.", nullptr},
    {"requires_grad", Property<[](const Tensor& t) { return t.requires_grad(kNowhere); }>,
     SetRequiresGrad, "Whether `backward` accumulates its gradient.", nullptr},
    {"is_leaf", Property<[](const Tensor& t) { return t.is_leaf(kNowhere); }>, nullptr,
     "Whether it was made by the user rather than by an op whose history is kept.", nullptr},
    {"data", Property<DetachedOf>, SetData, "The same memory without history.", nullptr},
    {"is_pending", Property<[](const Tensor& t) { return t.is_pending(kNowhere); }>, nullptr,
     "Whether its value is still to be computed.", nullptr},
    {}};

#define HAMMOCK_METHOD(function, flags) \
  reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(function)), flags

PyMethodDef methods[] = {
    {"item", HAMMOCK_METHOD(ItemOf, METH_NOARGS),
     "item($self, /)\n--\n\nThe value of one element, as a Python number. Computes."},
    {"tolist", HAMMOCK_METHOD(ToList, METH_NOARGS),
     "tolist($self, /)\n--\n\nThe values as nested lists. Computes."},
    {"size", HAMMOCK_METHOD(SizeMethod, METH_FASTCALL),
     "size($self, dim=None, /)\n--\n\nThe sizes, or that of one dim."},
    {"__complex__", HAMMOCK_METHOD(Complex, METH_NOARGS), nullptr},
    {"__format__", HAMMOCK_METHOD(Format, METH_O), nullptr},
    {}};

PyTypeObject* MakeType() {
  static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET,
                                   offsetof(TensorObject, weak_references), READONLY, nullptr},
                                  {}};
  PyType_Slot slots[] = {
      {Py_tp_doc,
       const_cast<char*>("A handle to a value that may not have been computed yet. Made by "
                         "hammock.tensor and by ops; reading it computes.")},
      {Py_tp_new, Slot(New)},
      {Py_tp_dealloc, Slot(Dealloc)},
      {Py_tp_repr, Slot(Repr)},
      {Py_tp_hash, Slot(Hash)},
      {Py_tp_iter, Slot(Iterate)},
      {Py_tp_richcompare, Slot(RichCompare)},
      {Py_tp_getset, properties},
      {Py_tp_methods, methods},
      {Py_tp_members, members},
      {Py_mp_length, Slot(Length)},
      {Py_mp_subscript, Slot(Subscript)},
      {Py_mp_ass_subscript, Slot(AssignSubscript)},
      {Py_sq_contains, Slot(Contains)},
      {Py_bf_getbuffer, Slot(GetBuffer)},
      {Py_bf_releasebuffer, Slot(ReleaseBuffer)},
      {Py_nb_bool, Slot(Truth)},
      {Py_nb_int, Slot(Int)},
      {Py_nb_float, Slot(Float)},
      {Py_nb_index, Slot(AsIndex)},
      {Py_nb_add, HAMMOCK_BINARY(add)},
      {Py_nb_subtract, HAMMOCK_BINARY(sub)},
      {Py_nb_multiply, HAMMOCK_BINARY(mul)},
      {Py_nb_true_divide, HAMMOCK_BINARY(div)},
      {Py_nb_floor_divide, HAMMOCK_BINARY(floor_divide)},
      {Py_nb_remainder, HAMMOCK_BINARY(remainder)},
      {Py_nb_divmod, Slot(DivMod)},
      {Py_nb_power, Slot(Power)},
      {Py_nb_matrix_multiply, Slot(MatMul)},
      {Py_nb_and, HAMMOCK_BINARY(bitwise_and)},
      {Py_nb_or, HAMMOCK_BINARY(bitwise_or)},
      {Py_nb_xor, HAMMOCK_BINARY(bitwise_xor)},
      {Py_nb_lshift, HAMMOCK_BINARY(bitwise_left_shift)},
      {Py_nb_rshift, HAMMOCK_BINARY(bitwise_right_shift)},
      {Py_nb_negative, HAMMOCK_UNARY(neg)},
      {Py_nb_positive, HAMMOCK_UNARY(positive)},
      {Py_nb_absolute, HAMMOCK_UNARY(abs)},
      {Py_nb_invert, HAMMOCK_UNARY(bitwise_not)},
      {Py_nb_inplace_add, HAMMOCK_IN_PLACE(add_)},
      {Py_nb_inplace_subtract, HAMMOCK_IN_PLACE(sub_)},
      {Py_nb_inplace_multiply, HAMMOCK_IN_PLACE(mul_)},
      {Py_nb_inplace_true_divide, HAMMOCK_IN_PLACE(div_)},
      {Py_nb_inplace_floor_divide, HAMMOCK_IN_PLACE(floor_divide_)},
      {Py_nb_inplace_remainder, HAMMOCK_IN_PLACE(remainder_)},
      {Py_nb_inplace_power, Slot(InPlacePower)},
      {Py_nb_inplace_and, HAMMOCK_IN_PLACE(bitwise_and_)},
      {Py_nb_inplace_or, HAMMOCK_IN_PLACE(bitwise_or_)},
      {Py_nb_inplace_xor, HAMMOCK_IN_PLACE(bitwise_xor_)},
      {Py_nb_inplace_lshift, HAMMOCK_IN_PLACE(bitwise_left_shift_)},
      {Py_nb_inplace_rshift, HAMMOCK_IN_PLACE(bitwise_right_shift_)},
      {0, nullptr}};
  PyType_Spec spec = {"hammock.Tensor", sizeof(TensorObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) ThrowPythonError();
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

PyObject* Wrap(Tensor&& tensor) {
  if (!tensor.defined()) [[unlikely]]
    Py_RETURN_NONE;
  if (num_free == 0) return WrapAs(tensor_type, std::move(tensor));
  auto* object =
      reinterpret_cast<TensorObject*>(PyObject_Init(free_objects[--num_free], tensor_type));
  object->weak_references = nullptr;
  new (&object->tensor) Tensor(std::move(tensor));
  return reinterpret_cast<PyObject*>(object);
}

PyObject* WrapAs(PyTypeObject* type, Tensor&& tensor) {
  auto* object = reinterpret_cast<TensorObject*>(type->tp_alloc(type, 0));
  if (!object) ThrowPythonError();
  new (&object->tensor) Tensor(std::move(tensor));
  return reinterpret_cast<PyObject*>(object);
}

void AddTensor(nb::module_& module) {
  tensor_type = MakeType();
  module.attr("Tensor") = nb::borrow(reinterpret_cast<PyObject*>(tensor_type));
}

}  // namespace hammock::python
