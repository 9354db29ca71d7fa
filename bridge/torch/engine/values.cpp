#include "engine/values.h"

#include <ATen/ATen.h>
#include <hammock/ops/create.h>

#include <algorithm>

#include "engine/adaptor.h"

namespace hammock_torch {

using hammock::Any;
using hammock::AnyList;
using hammock::DType;
using hammock::Tensor;

namespace {

constexpr std::pair<c10::ScalarType, DType> kDTypes[] = {
    {at::kBool, DType::kBool},        {at::kByte, DType::kU8},
    {at::kChar, DType::kI8},          {at::kShort, DType::kI16},
    {at::kInt, DType::kI32},          {at::kLong, DType::kI64},
    {at::kHalf, DType::kF16},         {at::kBFloat16, DType::kBF16},
    {at::kFloat, DType::kF32},        {at::kDouble, DType::kF64},
    {at::kComplexFloat, DType::kC64}, {at::kComplexDouble, DType::kC128},
};

at::Tensor OverHost(hammock::HostTensor host) {
  std::vector<int64_t> sizes = host.shape().sizes().vec();
  at::TensorOptions options(FromDType(host.dtype()));
  void* data = host.mutable_data();
  return at::from_blob(
      data, sizes, [host = std::move(host)](void*) {}, options);
}

Any FromList(const c10::IValue& value, const hammock::Device& device) {
  AnyList items;
  for (const c10::IValue& item : value.toListRef()) items.push_back(FromIValue(item, device));
  return items;
}

c10::IValue NumberToIValue(const Any& value, const c10::TypePtr& type) {
  switch (value.kind()) {
    case Any::Kind::kBool:
      return type->kind() == c10::TypeKind::IntType ? c10::IValue(value.ToInt())
                                                    : c10::IValue(value.ToBool());
    case Any::Kind::kInt:
      if (type->kind() == c10::TypeKind::FloatType) return value.ToDouble();
      return c10::IValue(value.ToInt());
    case Any::Kind::kFloat:
      return value.ToDouble();
    default: {
      hammock::Scalar number = value.ToScalar();
      return c10::complex<double>(number.ToDouble(), number.imag());
    }
  }
}

c10::IValue ListToIValue(const AnyList& items, const c10::TypePtr& type) {
  c10::TypePtr element = c10::AnyType::get();
  if (auto list = type->cast<c10::ListType>()) {
    element = list->getElementType();
  } else if (!items.empty()) {
    element = ToIValue(items[0], c10::AnyType::get()).type();
  }
  c10::impl::GenericList list(element);
  for (const Any& item : items) list.push_back(ToIValue(item, element));
  return list;
}

}  // namespace

DType ToDType(c10::ScalarType type) {
  for (const auto& [theirs, ours] : kDTypes) {
    if (theirs == type) return ours;
  }
  throw Unsupported(std::string("Hammock has no dtype ") + c10::toString(type));
}

DType DTypeOfNumber(int64_t scalar_type) {
  return ToDType(static_cast<c10::ScalarType>(scalar_type));
}
int64_t NumberOfDType(DType dtype) { return static_cast<int64_t>(FromDType(dtype)); }

c10::ScalarType FromDType(DType dtype) {
  for (const auto& [theirs, ours] : kDTypes) {
    if (ours == dtype) return theirs;
  }
  throw Unsupported("PyTorch has no dtype " + std::string(hammock::NameOf(dtype)));
}

Tensor ImportTensor(const at::Tensor& tensor, const hammock::Device& device) {
  DType dtype = ToDType(tensor.scalar_type());
  if (tensor.layout() != c10::kStrided) throw Unsupported("a tensor that is not dense");
  if (tensor.dim() > hammock::kMaxRank) {
    throw Unsupported("a tensor of " + std::to_string(tensor.dim()) + " dims");
  }
  hammock::Dims sizes(std::span<const int64_t>(tensor.sizes().data(), tensor.sizes().size()));
  at::Tensor dense = tensor;
  if (tensor.is_conj() || tensor.is_neg() || !tensor.device().is_cpu()) {
    dense = tensor.detach().resolve_conj().resolve_neg().cpu();
  }
  if (!dense.is_contiguous()) dense = dense.detach().contiguous();
  if (dense.numel() == 0) return hammock::empty(sizes, dtype, device);
  // The storage alone: a tensor would keep its history alive as well.
  return hammock::from_blob(dense.data_ptr(), sizes, dtype,
                            hammock::BorrowedMemory([storage = dense.storage()] {}), device);
}

at::Tensor ShareTensor(const Tensor& value) { return OverHost(value.host()); }

at::Tensor ExportTensor(Tensor value) {
  hammock::HostTensor host = value.host();
  value = Tensor();
  if (!host.unique()) host = hammock::HostTensor::Copy(host.shape(), host.data());
  return OverHost(std::move(host));
}

Any FromIValue(const c10::IValue& value, const hammock::Device& device) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() ? Any(ImportTensor(tensor, device)) : Any();
  }
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return Any(value.toInt());
  if (value.isDouble()) return value.toDouble();
  if (value.isComplexDouble()) {
    c10::complex<double> number = value.toComplexDouble();
    return std::complex<double>(number.real(), number.imag());
  }
  if (value.isString()) return value.toStringRef();
  if (value.isTuple()) {
    AnyList items;
    for (const c10::IValue& item : value.toTupleRef().elements()) {
      items.push_back(FromIValue(item, device));
    }
    return Any::Tuple(std::move(items));
  }
  if (value.isList()) return FromList(value, device);
  if (value.isGenericDict()) {
    hammock::AnyDict items;
    for (const auto& item : value.toGenericDict()) {
      if (!item.key().isString()) throw Unsupported("a dict whose keys are not strings");
      items[item.key().toStringRef()] = FromIValue(item.value(), device);
    }
    return items;
  }
  if (value.isNone() || value.isDevice()) return Any();
  throw Unsupported("a value of type " + value.tagKind());
}

c10::IValue ToIValue(const Any& value, const c10::TypePtr& type) {
  if (auto optional = type->cast<c10::OptionalType>()) {
    return value.IsNone() ? c10::IValue() : ToIValue(value, optional->getElementType());
  }
  switch (value.kind()) {
    case Any::Kind::kNone:
      if (type->kind() == c10::TypeKind::DeviceObjType) return c10::Device(c10::kCPU);
      if (type->kind() == c10::TypeKind::TensorType) return at::Tensor();
      return {};
    case Any::Kind::kBool:
    case Any::Kind::kInt:
    case Any::Kind::kFloat:
    case Any::Kind::kComplex:
      return NumberToIValue(value, type);
    case Any::Kind::kString:
      return value.ToStringRef();
    case Any::Kind::kDType:
      return static_cast<int64_t>(FromDType(value.ToDType()));
    case Any::Kind::kTensor:
      return ShareTensor(value.ToTensor());
    case Any::Kind::kList:
      return ListToIValue(value.ToList(), type);
    case Any::Kind::kTuple: {
      std::vector<c10::IValue> items;
      for (const Any& item : value.ToList()) items.push_back(ToIValue(item, c10::AnyType::get()));
      return c10::ivalue::Tuple::create(std::move(items));
    }
    case Any::Kind::kDict: {
      c10::TypePtr of = c10::AnyType::get();
      if (auto dict = type->cast<c10::DictType>()) of = dict->getValueType();
      c10::impl::GenericDict items(c10::StringType::get(), of);
      for (const auto& [key, item] : value.ToDict()) items.insert(key, ToIValue(item, of));
      return items;
    }
    default:
      throw Unsupported("a value of type " + value.type_name());
  }
}

bool HoldsTensor(const Any& value) {
  if (value.IsTensor()) return true;
  if (!value.IsSequence()) return false;
  const AnyList& items = value.ToList();
  return std::any_of(items.begin(), items.end(), HoldsTensor);
}

}  // namespace hammock_torch
