/// Copies, and conversions to another dtype or device.

#include "base/location_scope.h"
#include "hammock/op_builder.h"
#include "hammock/ops/view.h"
#include "ir/primitives.h"
#include "trace/alias.h"
#include "trace/hooks.h"
#include "trace/layout.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"
#include "trace/write.h"

namespace hammock {

namespace {

/// Values are immutable: a copy is a second tensor of the same value.
Tensor RowMajorCopy(const char* op, const Tensor& self) {
  Value value = ValueOf(op, self);
  if (!value) ThrowUndefined(op);
  value.tape = PassOn(value);
  return Tensor::FromValue(std::move(value));
}

}  // namespace

Tensor clone(const Tensor& self, Location at) {
  LocationScope scope(at);
  return LikeLayout(RowMajorCopy("clone", self), self);
}

Tensor contiguous(const Tensor& self, Location at) {
  LocationScope scope(at);
  CurrentNode("contiguous", self);
  return self.is_contiguous() ? self : RowMajorCopy("contiguous", self);
}

Tensor to(const Tensor& self, DType dtype, Location at) {
  LocationScope scope(at);
  CurrentNode("to", self);
  if (self.dtype() == dtype) return self;
  return LikeLayout(Apply(ops::kCast, at, {self}, {Attr(dtype)}), self);
}

Tensor to(const Tensor& self, const Device& device, Location at) {
  LocationScope scope(at);
  Node* node = CurrentNode("to", self);
  if (node->device() == device.id()) return self;
  Value copy{CopyToDevice(self, device.id(), CurrentLocation()), 0};
  copy.tape = RecordTransfer(ValueOf("to", self), device.id());
  return LikeLayout(NewTensor(std::move(copy), true), self);
}

Tensor& copy_(Tensor& self, const Tensor& source, Location at) {
  LocationScope scope(at);
  CurrentNode("copy_", self);
  CurrentNode("copy_", source);
  if (source.impl()->node->device() != self.impl()->node->device() &&
      source.impl()->node->device() != kNoDevice) {
    return WriteInPlace("copy_", self, to(source, self.device(), at));
  }
  return WriteInPlace("copy_", self, source);
}

}  // namespace hammock
