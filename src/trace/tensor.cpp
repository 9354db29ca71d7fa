#include "hammock/tensor.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <ostream>

#include "base/throw.h"
#include "hammock/op_builder.h"
#include "ir/any_tensor.h"
#include "ir/primitives.h"
#include "trace/hooks.h"
#include "trace/layout.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"
#include "trace/write.h"

namespace hammock {

Tensor::Tensor(const Tensor& other) noexcept : impl_(other.impl_) {
  if (impl_) impl_->references.fetch_add(1, std::memory_order_relaxed);
}

Tensor& Tensor::operator=(const Tensor& other) & noexcept {
  Tensor copy(other);
  std::swap(impl_, copy.impl_);
  return *this;
}

// The old value is released now, not when `other` dies: a live handle makes an output.
Tensor& Tensor::operator=(Tensor&& other) & noexcept {
  Tensor moved(std::move(other));
  std::swap(impl_, moved.impl_);
  return *this;
}

Tensor Tensor::operator=(const TensorArg& value) && {
  LocationScope scope(value.at());
  CurrentNode("assignment", *this);
  if (impl_->references.load(std::memory_order_relaxed) == 1 && !impl_->SharesMemory()) {
    Throw(ErrorCode::kValue,
          "assignment: the left side is a new tensor {} that shares its memory with no other, so "
          "the value would be lost; indices that are tensors copy: write "
          "x.index_put_({{...}}, value)",
          shape().to_string());
  }
  return value.is_tensor() ? copy_(value.tensor(), value.at()) : fill_(value, value.at());
}

Tensor::~Tensor() {
  if (impl_ && impl_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) DestroyImpl(impl_);
}

const Shape& Tensor::shape(Location at) const {
  if (!impl_) ThrowUndefined("shape", at);
  return impl_->node->shape(static_cast<int>(impl_->index));
}

int64_t Tensor::size(int64_t dim, Location at) const {
  if (!impl_) ThrowUndefined("size", at);
  const Shape& type = shape();
  if (dim >= 0 && dim < type.rank()) return type.size(static_cast<int>(dim));
  LocationScope scope(at);
  if (type.rank() == 0) {
    Throw(ErrorCode::kDimOutOfRange, "size: a 0-d tensor has no dim {}", dim);
  }
  return type.size(WrapDim("size", dim, type.rank()));
}

Device Tensor::device(Location at) const {
  if (!impl_) ThrowUndefined("device", at);
  if (impl_->node->device() == kNoDevice) return Device::FromId(kNoDevice);
  return Device::FromId(impl_->node->device());
}

Dims Tensor::strides(Location at) const {
  if (!impl_) ThrowUndefined("strides", at);
  return GeometryOf(*impl_).strides;
}

int64_t Tensor::stride(int64_t dim, Location at) const {
  LocationScope scope(at);
  Dims all = strides();
  return all[WrapDim("stride", dim, all.size())];
}

int64_t Tensor::storage_offset(Location at) const {
  if (!impl_) ThrowUndefined("storage_offset", at);
  return GeometryOf(*impl_).offset;
}

bool Tensor::is_contiguous(Location at) const {
  if (!impl_) ThrowUndefined("is_contiguous", at);
  if (!impl_->view) return true;
  return IsRowMajor(GeometryOf(*impl_));
}

int64_t Tensor::id(Location at) const {
  if (!impl_) ThrowUndefined("id", at);
  static std::atomic<int64_t> next{0};
  int64_t id = impl_->id.load(std::memory_order_relaxed);
  if (id == 0) {
    int64_t fresh = next.fetch_add(1) + 1;
    id = impl_->id.compare_exchange_strong(id, fresh) ? fresh : id;
  }
  return id;
}

bool Tensor::is_alias_of(const Tensor& other) const {
  if (!impl_ || !other.impl_) return false;
  if (impl_ == other.impl_) return true;
  return impl_->SharesMemory() && other.impl_->view &&
         impl_->view->group == other.impl_->view->group;
}

Value Tensor::value(Location at) const {
  if (!impl_) ThrowUndefined("value", at);
  return ValueOf("value", *this);
}

Tensor Tensor::FromValue(Value value) {
  if (!value) Throw(ErrorCode::kUninitializedTensor, "FromValue: the value is empty");
  return NewTensor(std::move(value), false);
}

bool Tensor::is_pending(Location at) const {
  LocationScope scope(at);
  return IsPendingValue(*this);
}

std::string Tensor::summary() const {
  if (!impl_) return "undefined";
  if (impl_->donated) {
    return fmt::format("{} on {}, donated", shape().to_string(), device().to_string());
  }
  Value value = ValueOf("summary", *this);
  std::string device =
      value.node->device() == kNoDevice ? "no device (symbolic)" : this->device().to_string();
  std::string text =
      fmt::format("{} on {}, {}", shape().to_string(), device, is_pending() ? "pending" : "ready");
  if (!value.node->IsLeaf()) text += fmt::format(", from {}", value.node->op().name());
  std::string where = LocationText(value.node->location());
  if (!where.empty()) text += " at " + where;
  return text;
}

HostTensor Tensor::host(Location at) const {
  LocationScope scope(at);
  return ReadElements(*this);
}

Scalar Tensor::item(Location at) const {
  if (!impl_) ThrowUndefined("item", at);
  LocationScope scope(at);
  if (numel() != 1) {
    Throw(numel() == 0 ? ErrorCode::kEmptyTensor : ErrorCode::kValue,
          "item: needs exactly one element, {} has {}", shape().to_string(), numel());
  }
  return host(at).at(0);
}

const void* Tensor::HostData(DType element, Location at) const {
  LocationScope scope(at);
  CurrentNode("data_ptr", *this);
  if (dtype() != element) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "data_ptr: the tensor is {}, not {}",
                     shape().to_string(), NameOf(element));
  }
  // Zero bytes: a device whose memory is the host's.
  if (GetMemoryInfo(device(), at).total > 0) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "data_ptr: the tensor is on {}, not in host memory; call cpu() first",
                        device().to_string());
  }
  static std::mutex mutex;  // copies of a handle share the elements
  std::lock_guard lock(mutex);
  if (!impl_->host_is_current) {
    impl_->host = host(at).storage();
    impl_->host_is_current = true;
  }
  return impl_->host.get();
}

RowIterator Tensor::begin(Location at) const {
  LocationScope scope(at);
  if (dim() == 0) {
    Throw(ErrorCode::kValue, "a 0-d tensor {} has no rows to iterate over", shape().to_string());
  }
  return RowIterator(*this, 0, at);
}

RowIterator Tensor::end() const { return RowIterator(*this, size(0), Location()); }

Tensor RowIterator::operator*() const { return tensor_.select(0, row_, at_); }

Tensor& WriteInPlace(const char* op, Tensor& self, const Tensor& value) {
  CurrentNode(op, self);
  Value source = ValueOf(op, value);
  if (!source) ThrowUndefined(op);
  const Shape type = self.shape();
  if (self.impl()->node->device() == kNoDevice && Context().symbolic == 0) {
    Throw(ErrorCode::kValue, "{}: a lifted scalar cannot be written", op);
  }
  if (source.node->device() != self.impl()->node->device() && source.node->device() != kNoDevice) {
    Throw(ErrorCode::kDeviceMismatch, "{}: operands live on different devices: {} and {}", op,
          self.device().to_string(), value.device().to_string());
  }
  // bool < integers < floats < complex: a category that is lower would lose the value's.
  auto kind = [](DType dtype) {
    return IsIntegral(dtype) ? DTypeKind::kSigned : InfoOf(dtype).kind;
  };
  if (kind(source.shape().dtype()) > kind(type.dtype()) &&
      !std::string_view(op).starts_with("copy")) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: a result of {} cannot be stored in {}", op,
                     source.shape().to_string(), type.to_string());
  }
  if (type.dtype() == DType::kBool && source.shape().dtype() != DType::kBool &&
      !std::string_view(op).starts_with("copy")) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: a result of {} cannot be stored in {}", op,
                     source.shape().to_string(), type.to_string());
  }
  if (BroadcastSizes(op, source.shape().sizes(), type.sizes()) != type.sizes()) {
    Throw(ErrorCode::kShapeMismatch, "{}: a result of {} does not broadcast to {}", op,
          source.shape().to_string(), type.to_string());
  }
  DeviceId device = self.impl()->node->device();
  if (source.shape().dtype() != type.dtype()) {
    const Attr attrs[] = {Attr(type.dtype())};
    source = Record(ops::kCast, std::span(&source, 1), attrs, CurrentLocation(), device);
  }
  if (source.shape().sizes() != type.sizes() || source.node->device() != device) {
    const Attr attrs[] = {Attr(type.sizes())};
    source = Record(ops::kBroadcast, std::span(&source, 1), attrs, CurrentLocation(), device);
  }
  bool is_copy = std::string_view(op).starts_with("copy");
  Write(op, self, source, is_copy && source == ValueOf(op, value));
  return self;
}

Any::Any(const Tensor& value) : Any(Kind::kTensor, std::make_shared<Tensor>(value)) {}

std::string TensorSummary(const Tensor& tensor) { return tensor.summary(); }

}  // namespace hammock
