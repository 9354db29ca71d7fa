#include "create.h"

#include <vector>

#include "convert.h"
#include "errors.h"
#include "exchange.h"
#include "hammock/ops.h"
#include "location.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

/// Nested lists of numbers: their sizes, and whether they are bools, ints, floats or complex.
class NestedLists {
 public:
  NestedLists(PyObject* list, std::optional<DType> dtype) : unsigned_(dtype == DType::kU64) {
    Visit(list, 0);
  }

  /// Whether all leaves are numbers and lists of one depth have one length.
  bool numbers() const { return numbers_; }
  const Dims& sizes() const { return sizes_; }

  HostTensor To(std::optional<DType> dtype) const {
    const DType of_kind[] = {boolean, i64, kDefaultFloat, kDefaultComplex};
    const DType own = values_.empty() ? kDefaultFloat : of_kind[static_cast<int>(kind_)];
    HostTensor host(Shape(dtype.value_or(own), sizes_));
    if (kind_ == Kind::kComplex && !IsComplex(host.dtype())) {
      throw TypeError(ErrorCode::kDTypeMismatch, "tensor: complex numbers do not fit into " +
                                                     std::string(InfoOf(host.dtype()).torch_name));
    }
    if (host.dtype() == f32) {
      auto out = host.mutable_values<float>();
      for (size_t i = 0; i < values_.size(); ++i)
        out[i] = static_cast<float>(values_[i].ToDouble());
    } else {
      for (size_t i = 0; i < values_.size(); ++i) {
        host.set(static_cast<int64_t>(i), values_[i].To(host.dtype()));
      }
    }
    return host;
  }

 private:
  enum class Kind { kBool, kInt, kFloat, kComplex };

  void Visit(PyObject* object, int depth) {
    if (!numbers_) return;
    if (!PyList_Check(object) && !PyTuple_Check(object)) return AddNumber(object, depth);
    if (depth == kMaxRank) {
      throw ValueError(ErrorCode::kValue,
                       "tensor: lists nest at most " + std::to_string(kMaxRank) + " deep");
    }
    nb::object items = nb::steal(PySequence_Fast(object, ""));
    int64_t size = PySequence_Fast_GET_SIZE(items.ptr());
    bool first = depth == sizes_.size() && !leaf_depth_;
    if (first) sizes_.push_back(size);
    if (depth >= sizes_.size() || sizes_[depth] != size) Uneven();
    for (int64_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i) {
      Visit(nb::borrow(PySequence_Fast_GET_ITEM(items.ptr(), i)).ptr(), depth + 1);
    }
    if (first && size == 0) leaf_depth_ = depth + 1;
  }

  void AddNumber(PyObject* object, int depth) {
    std::optional<Scalar> number = ScalarFrom(object, true, unsigned_);
    if (!number) {
      numbers_ = false;
      return;
    }
    if (leaf_depth_ && *leaf_depth_ != depth) Uneven();
    leaf_depth_ = depth;
    if (depth != sizes_.size()) Uneven();
    Kind kind = number->IsComplex()    ? Kind::kComplex
                : number->IsFloating() ? Kind::kFloat
                : number->IsBool()     ? Kind::kBool
                                       : Kind::kInt;
    if (kind > kind_) kind_ = kind;
    values_.push_back(*number);
  }

  [[noreturn]] static void Uneven() {
    throw ValueError(ErrorCode::kShapeMismatch, "tensor: lists of one depth must have one length");
  }

  const bool unsigned_;  // ints of 64 bits have no sign
  Dims sizes_;
  std::optional<int> leaf_depth_;
  Kind kind_ = Kind::kBool;
  bool numbers_ = true;
  std::vector<Scalar> values_;
};

Tensor Casted(const Tensor& tensor, std::optional<DType> dtype) {
  return dtype && tensor.dtype() != *dtype ? tensor.to(*dtype) : tensor;
}

DType NumberDType(const Scalar& number) {
  if (number.IsComplex()) return kDefaultComplex;
  return number.IsFloating() ? kDefaultFloat : number.IsBool() ? boolean : i64;
}

/// A list of arrays, or of tensors with dims: they are stacked.
Tensor Stacked(PyObject* list, std::optional<DType> dtype, const Device& device) {
  std::vector<Tensor> items;
  for (nb::handle item : nb::borrow(list)) {
    items.push_back(MakeTensor(item.ptr(), dtype, device, Copy::kAlways));
  }
  return stack(items, 0);
}

std::optional<DType> DTypeArgument(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  if (std::optional<DType> dtype = DTypeFrom(object.ptr())) return dtype;
  throw TypeError(ErrorCode::kSchema,
                  std::string("dtype must be a dtype such as hammock.float32, not ") +
                      nb::str(nb::repr(object)).c_str());
}

Copy CopyArgument(nb::handle object) {
  if (object.is_none()) return Copy::kIfWritable;
  int truth = PyObject_IsTrue(object.ptr());
  if (truth < 0) ThrowPythonError();
  return truth ? Copy::kAlways : Copy::kNever;
}

[[noreturn]] void RefuseCopy(const std::string& op, const std::string& why) {
  throw ValueError(ErrorCode::kValue, op + ": copy=False, but " + why);
}

/// Without an argument, arrays on a card stay there.
Device TargetOf(nb::handle device, nb::handle data) {
  if (!device.is_none() || !PyObject_HasAttrString(data.ptr(), "__dlpack_device__"))
    return DeviceArgument(device);
  return CardOf(data.ptr()).value_or(Device());
}

/// Memory of others is shared with the host, or on its card.
void CheckShares(const std::string& op, PyObject* source, const Device& device, Copy copy) {
  if (copy != Copy::kNever || device.type() == "cpu" || CardOf(source)) return;
  RefuseCopy(op, "host memory is copied to " + device.to_string());
}

/// The tensor itself where nothing differs.
Tensor OfTensor(const Tensor& source, std::optional<DType> dtype, const Device& device, Copy copy) {
  Tensor result = Casted(source.to(device), dtype);
  const bool same = result.is_same(source);
  if (copy == Copy::kAlways && same) return source.clone().detach();
  if (copy == Copy::kNever && !same) {
    RefuseCopy("asarray", "the tensor is " + source.shape().to_string() + " on " +
                              source.device().to_string() + " and " + result.shape().to_string() +
                              " on " + device.to_string() + " is asked for");
  }
  return result;
}

}  // namespace

Device DeviceArgument(nb::handle object) {
  if (object.is_none()) return Device();
  if (std::optional<std::string> name = DeviceNameFrom(object.ptr())) return Device(*name);
  throw TypeError(ErrorCode::kSchema, "device must be a name such as 'cpu', or a device");
}

bool CanImport(PyObject* object) {
  return PyObject_CheckBuffer(object) || PyObject_HasAttrString(object, "__dlpack__") ||
         PyObject_HasAttrString(object, "__array__");
}

Tensor MakeTensor(PyObject* data, std::optional<DType> dtype, const Device& device, Copy copy) {
  if (IsTensor(data)) return OfTensor(TensorOf(data), dtype, device, copy);
  const bool is_list = PyList_Check(data) || PyTuple_Check(data);
  if (copy == Copy::kNever && (is_list || !CanImport(data))) {
    RefuseCopy("asarray", std::string("a ") + Py_TYPE(data)->tp_name + " has no memory to share");
  }
  if (is_list) {
    NestedLists lists(data, dtype);
    if (!lists.numbers()) return Stacked(data, dtype, device);
    return from_host(lists.To(dtype), device);
  }
  if (!PyObject_CheckBuffer(data)) {
    if (std::optional<Scalar> number = ScalarFrom(data, false, dtype == DType::kU64)) {
      return from_host(HostTensor::From(number->To(dtype.value_or(NumberDType(*number)))), device);
    }
  }
  if (CanImport(data)) {
    CheckShares("asarray", data, device, copy);
    Tensor imported = Import(data, device, copy);
    if (copy == Copy::kNever) return OfTensor(imported, dtype, device, copy);
    return Casted(imported, dtype);
  }
  throw TypeError(
      ErrorCode::kSchema,
      std::string("tensor: takes numbers, nested lists, arrays and objects with DLPack, not ") +
          Py_TYPE(data)->tp_name);
}

void AddCreation(nb::module_& module) {
  module.def(
      "tensor",
      [](nb::handle data, nb::handle dtype, nb::handle device, bool requires_grad) {
        CallerLine line;
        Tensor result = MakeTensor(
            data.ptr(), DTypeArgument(dtype),
            IsTensor(data.ptr()) ? DeviceArgument(device) : TargetOf(device, data), Copy::kAlways);
        if (requires_grad) result.requires_grad_();
        return result;
      },
      nb::arg("data").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("requires_grad") = false,
      "A new tensor of a number, nested lists, an array, or anything with DLPack or the buffer "
      "protocol. Copies "
      "at the call.");
  module.def(
      "asarray",
      [](nb::handle data, nb::handle dtype, nb::handle device, nb::handle copy) {
        CallerLine line;
        const bool own = device.is_none() && IsTensor(data.ptr());
        return MakeTensor(data.ptr(), DTypeArgument(dtype),
                          own ? TensorOf(data.ptr()).device() : TargetOf(device, data),
                          CopyArgument(copy));
      },
      nb::arg("data").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("copy") = nb::none(),
      "As `tensor`; a tensor is returned itself. Memory of others is shared if it is read-only, or "
      "if copy=False says so: then it must not be written before the ops that read it have run. "
      "With copy=False what needs a copy, such as another dtype, is a ValueError.");
  module.def(
      "from_numpy",
      [](nb::handle array, nb::handle copy) {
        CallerLine line;
        if (!PyObject_CheckBuffer(array.ptr())) {
          throw TypeError(ErrorCode::kSchema, std::string("from_numpy: takes a NumPy array, not ") +
                                                  Py_TYPE(array.ptr())->tp_name);
        }
        CheckShares("from_numpy", array.ptr(), Device(), CopyArgument(copy));
        return Import(array.ptr(), Device(), CopyArgument(copy));
      },
      nb::arg("array").none(), nb::kw_only(), nb::arg("copy") = nb::none(),
      "A tensor of a NumPy array, by the rules of `asarray`.");
  module.def(
      "from_dlpack",
      [](nb::handle source, nb::handle device, nb::handle copy) {
        CallerLine line;
        const Device target = TargetOf(device, source);
        CheckShares("from_dlpack", source.ptr(), target, CopyArgument(copy));
        return ImportDLPack(source.ptr(), target, CopyArgument(copy));
      },
      nb::arg("source").none(), nb::kw_only(), nb::arg("device") = nb::none(),
      nb::arg("copy") = nb::none(),
      "A tensor of an object with `__dlpack__`, by the rules of `asarray`; on the array's own "
      "device where Hammock has it.");
}

}  // namespace hammock::python
