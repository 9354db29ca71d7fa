#include "engine/values.h"

#include <ATen/ATen.h>
#include <hammock/ops/create.h>
#include <torch/version.h>

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
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    {at::kUInt16, DType::kU16},       {at::kUInt32, DType::kU32},
    {at::kUInt64, DType::kU64},
#endif
};

/// A tensor of a kind without a counterpart.
struct ForeignTensor final : hammock::Object {
  explicit ForeignTensor(at::Tensor tensor) : tensor(std::move(tensor)) {}
  std::string type_name() const override {
    return std::string("tensor of ") + c10::toString(tensor.scalar_type());
  }
  at::Tensor tensor;
};

bool IsKnown(const at::Tensor& tensor) {
  auto is_its = [&](const auto& pair) { return pair.first == tensor.scalar_type(); };
  return tensor.layout() == c10::kStrided && tensor.dim() <= hammock::kMaxRank &&
         std::any_of(std::begin(kDTypes), std::end(kDTypes), is_its);
}

template <class Holds>
bool AnyIn(const Any& value, Holds holds) {
  if (!value.IsSequence()) return holds(value);
  const AnyList& items = value.ToList();
  return std::any_of(items.begin(), items.end(),
                     [&](const Any& item) { return AnyIn(item, holds); });
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
  throw Unsupported(std::string("the bridge has no counterpart of dtype ") + c10::toString(type));
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

hammock::Shape ShapeOf(const at::Tensor& tensor) {
  DType dtype = ToDType(tensor.scalar_type());
  if (tensor.layout() != c10::kStrided) throw Unsupported("a tensor that is not dense");
  if (tensor.dim() > hammock::kMaxRank) {
    throw Unsupported("a tensor of " + std::to_string(tensor.dim()) + " dims");
  }
  return {dtype,
          hammock::Dims(std::span<const int64_t>(tensor.sizes().data(), tensor.sizes().size()))};
}

at::Tensor Dense(const at::Tensor& tensor) {
  if (tensor.is_conj() || tensor.is_neg() || !tensor.device().is_cpu()) {
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
  }
  return tensor.is_contiguous() ? tensor : tensor.detach().contiguous();
}

hammock::HostTensor Borrowed(const at::Tensor& dense, const hammock::Shape& shape,
                             c10::Storage holder) {
  if (dense.numel() == 0) return hammock::HostTensor(shape);
  return hammock::HostTensor::Borrow(shape, dense.data_ptr(), [holder = std::move(holder)] {});
}

Tensor ImportTensor(const at::Tensor& tensor, const hammock::Device& device) {
  hammock::Shape shape = ShapeOf(tensor);
  at::Tensor dense = Dense(tensor);
  if (dense.numel() == 0) return hammock::empty(shape.sizes(), shape.dtype(), device);
  // The storage alone: a tensor would keep its history alive as well.
  return hammock::from_blob(dense.data_ptr(), shape.sizes(), shape.dtype(),
                            hammock::BorrowedMemory([storage = dense.storage()] {}), device);
}

at::Tensor OverMemory(c10::DataPtr memory, const hammock::Shape& shape) {
  c10::DispatchKey key = memory.device().is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(shape.bytes()), std::move(memory),
      /*allocator=*/nullptr, /*resizable=*/false));
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key),
                                               c10::scalarTypeToTypeMeta(FromDType(shape.dtype())));
  const hammock::Dims& sizes = shape.sizes();
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(
      {sizes.begin(), static_cast<size_t>(sizes.end() - sizes.begin())});
  return tensor;
}

at::Tensor OverHost(hammock::HostTensor host) {
  using Holder = std::shared_ptr<void>;
  c10::DataPtr memory(
      host.mutable_data(), new Holder(host.storage()),
      [](void* holder) { delete static_cast<Holder*>(holder); }, c10::Device(c10::kCPU));
  return OverMemory(std::move(memory), host.shape());
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
    if (!tensor.defined()) return Any();
    if (!IsKnown(tensor)) return std::shared_ptr<hammock::Object>(new ForeignTensor(tensor));
    return ImportTensor(tensor, device);
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
    case Any::Kind::kObject:
      if (auto foreign = std::dynamic_pointer_cast<ForeignTensor>(value.ToObject())) {
        return foreign->tensor;
      }
      [[fallthrough]];
    default:
      throw Unsupported("a value of type " + value.type_name());
  }
}

bool HoldsTensor(const Any& value) {
  return AnyIn(value, [](const Any& item) { return item.IsTensor(); }) || HoldsForeign(value);
}

bool HoldsForeign(const Any& value) {
  return AnyIn(value, [](const Any& item) { return item.kind() == Any::Kind::kObject; });
}

}  // namespace hammock_torch
