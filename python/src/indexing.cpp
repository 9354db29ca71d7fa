#include "indexing.h"

#include <vector>

#include "convert.h"
#include "create.h"
#include "errors.h"
#include "hammock/ops.h"
#include "location.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

std::optional<int64_t> Bound(PyObject* object) {
  if (object == Py_None) return std::nullopt;
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const int64_t bound = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) return bound;
  }
  Any value;
  if (!Convert(object, SchemaType{.base = SchemaType::Base::kInt}, value)) {
    throw TypeError(ErrorCode::kSchema, std::string("getitem: a slice has ints or None, not ") +
                                            Py_TYPE(object)->tp_name);
  }
  return value.ToInt();
}

Slice SliceFrom(PyObject* key) {
  auto* slice = reinterpret_cast<PySliceObject*>(key);
  return Slice(Bound(slice->start), Bound(slice->stop), Bound(slice->step).value_or(1));
}

Index IndexFrom(PyObject* key, const Device& device) {
  if (PyBool_Check(key)) return key == Py_True;
  if (PySlice_Check(key)) return SliceFrom(key);
  if (key == Py_Ellipsis) return Ellipsis;
  if (key == Py_None) return None;
  if (IsTensor(key)) return TensorOf(key);
  if (PyList_Check(key) || PyTuple_Check(key)) {
    Tensor index = MakeTensor(key, std::nullopt, device, Copy::kAlways);
    return index.numel() == 0 && IsFloat(index.dtype()) ? index.to(i64) : index;
  }
  if (std::optional<Scalar> number = ScalarFrom(key, false); number && number->IsInt()) {
    return number->ToInt();
  }
  if (CanImport(key)) return MakeTensor(key, std::nullopt, device, Copy::kAlways);
  throw TypeError(
      ErrorCode::kSchema,
      std::string("getitem: an index is an int, a slice, ..., None, a list or a tensor of ints or "
                  "bools, not ") +
          Py_TYPE(key)->tp_name);
}

std::vector<Index> IndicesFrom(const Tensor& tensor, PyObject* key) {
  Device device = tensor.device();
  std::vector<Index> indices;
  if (!PyTuple_Check(key)) return {IndexFrom(key, device)};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    indices.push_back(IndexFrom(PyTuple_GET_ITEM(key, i), device));
  }
  return indices;
}

}  // namespace

Tensor GetItem(const Tensor& tensor, PyObject* key) {
  if (tensor.dim() > 0) {  // the two most frequent ones
    if (PySlice_Check(key)) {
      Slice range = SliceFrom(key);
      return slice(tensor, 0, range.start, range.stop, range.step);
    }
    if (PyLong_CheckExact(key)) return select(tensor, 0, Bound(key).value_or(0));
  }
  return tensor.index(IndicesFrom(tensor, key));
}

void SetItem(Tensor& tensor, PyObject* key, PyObject* value) {
  std::vector<Index> indices = IndicesFrom(tensor, key);
  if (IsTensor(value)) return tensor.index_put_(indices, TensorOf(value));
  if (std::optional<Scalar> number = ScalarFrom(value, false))
    return tensor.index_put_(indices, *number);
  Tensor source = MakeTensor(value, std::nullopt, tensor.device(), Copy::kAlways);
  tensor.index_put_(indices, source);
}

}  // namespace hammock::python
