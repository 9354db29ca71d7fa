// Forms that PyTorch has besides those that programs write: names that its own code calls,
// questions about a tensor, arguments that are tensors where others are numbers.

#include "hammock/ops/inner_names.h"

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/families.h"
#include "trace/layout.h"
#include "trace/tensor_impl.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

Tensor narrow_copy(const Tensor& self, int64_t dim, int64_t start, int64_t length, Location at) {
  LocationScope scope(at);
  return clone(narrow(self, dim, start, length, at), at);
}

std::vector<Tensor> where(const Tensor& condition, Location at) {
  LocationScope scope(at);
  Tensor coordinates = nonzero(condition.dim() == 0 ? Reshaped(condition, {1}) : condition, at);
  return unbind(coordinates, 1, at);
}

Tensor empty_strided(const Dims& size, const Dims& stride, std::optional<DType> dtype,
                     const Device& device, Location at) {
  LocationScope scope(at);
  if (size.size() != stride.size()) {
    Throw(ErrorCode::kValue, "empty_strided: {} sizes but {} strides", size.size(), stride.size());
  }
  CheckSizes("empty_strided", size);
  int64_t count = 1;
  for (int i = 0; i < size.size(); ++i) {
    if (size[i] == 0) count = 0;
  }
  for (int i = 0; i < size.size() && count > 0; ++i) count += (size[i] - 1) * stride[i];
  return as_strided(zeros({count}, dtype, device, at), size, stride, 0, at);
}

Tensor& resize_(Tensor& self, const Dims& size, Location at) {
  LocationScope scope(at);
  CurrentNode("resize_", self);
  CheckSizes("resize_", size);
  if (size == self.sizes()) return self;
  if (self.impl()->SharesMemory()) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "resize_: {} shares its memory with other tensors; resize a clone",
                        self.shape().to_string());
  }
  int64_t count = Shape(self.dtype(), size).numel();
  Dims order = StorageOrder(self.sizes(), self.strides());
  Tensor flat = Reshaped(order.empty() ? self : Permuted(self, order), {self.numel()});
  Tensor resized = Reshaped(Padded(flat, 0, 0, count - self.numel(), 0), size);
  ForgetWrites(*self.impl());
  SetNode(*self.impl(), resized.value());
  SetStrides(*self.impl(), ContiguousStrides(size));
  return self;
}

// ---- Other names

namespace {

std::optional<DType> SoftmaxType(const char* op, const Tensor& self, bool half_to_float) {
  if (!half_to_float) return std::nullopt;
  if (self.dtype() == DType::kF16) return DType::kF32;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: half_to_float needs f16, got {}", op,
                   self.shape().to_string());
}

Tensor PadBy(const char* op, const char* mode, int rank, const Tensor& self,
             const std::vector<int64_t>& padding, const Location& at) {
  if (padding.size() != static_cast<size_t>(2 * rank)) {
    Throw(ErrorCode::kValue, "{}: padding needs {} numbers, got {}", op, 2 * rank, padding.size());
  }
  return pad(self, padding, mode, 0, at);
}

}  // namespace

Tensor _softmax(const Tensor& self, int64_t dim, bool half_to_float, Location at) {
  LocationScope scope(at);
  return softmax(self, dim, SoftmaxType("_softmax", self, half_to_float), at);
}

Tensor _log_softmax(const Tensor& self, int64_t dim, bool half_to_float, Location at) {
  LocationScope scope(at);
  return log_softmax(self, dim, SoftmaxType("_log_softmax", self, half_to_float), at);
}

std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self, Location at) {
  LocationScope scope(at);
  return {log_sigmoid(self), exp(-abs(self))};
}

#define HAMMOCK_PAD(name, mode, rank)                                                 \
  Tensor name(const Tensor& self, const std::vector<int64_t>& padding, Location at) { \
    return PadBy(#name, mode, rank, self, padding, at);                               \
  }
HAMMOCK_PAD(reflection_pad1d, "reflect", 1)
HAMMOCK_PAD(reflection_pad2d, "reflect", 2)
HAMMOCK_PAD(reflection_pad3d, "reflect", 3)
HAMMOCK_PAD(replication_pad1d, "replicate", 1)
HAMMOCK_PAD(replication_pad2d, "replicate", 2)
HAMMOCK_PAD(replication_pad3d, "replicate", 3)
#undef HAMMOCK_PAD

// ---- Forms that are called by name only

namespace {

Tensor NarrowFrom(const Tensor& self, int64_t dim, const Tensor& start, int64_t length,
                  Location at) {
  if (start.dim() != 0 || !IsIntegral(start.dtype()) || start.dtype() == DType::kBool) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "narrow: start must be an integer or a 0-d integer tensor, got {}",
                     start.shape().to_string());
  }
  return narrow(self, dim, ReadCount("narrow", start), length, at);
}

Tensor DimArange(const Tensor& like, int64_t dim, Location at) {
  return arange(like.size(dim), DType::kI64, like.device(), at);
}

Tensor UnsafeView(const Tensor& self, const Dims& size, Location at) {
  return clone(view(self, size, at), at);
}

Tensor& IndexPutImpl(Tensor& self, const std::vector<std::optional<Tensor>>& indices,
                     const Tensor& values, bool accumulate, bool, Location at) {
  return index_put_(self, indices, values, accumulate, at);
}

Any CallIsSigned(std::span<const Any> args) { return Any(IsSigned(args[0].ToTensor().dtype())); }
Any CallIsFloat(std::span<const Any> args) { return Any(IsFloat(args[0].ToTensor().dtype())); }
Any CallIsComplex(std::span<const Any> args) { return Any(IsComplex(args[0].ToTensor().dtype())); }
Any CallIsAlias(std::span<const Any> args) {
  return Any(args[0].ToTensor().is_alias_of(args[1].ToTensor()));
}

Any CallWhere(std::span<const Any> args) {
  return boxing::FromTensors(where(args[0].ToTensor(), Location::current()));
}

// ---- Records

HAMMOCK_FUNCTION(kNarrowTensor,
                 "narrow.Tensor(Tensor(a) self, int dim, Tensor start, int length) -> Tensor(a)",
                 "A range of one dim; reads where it starts.", NarrowFrom)
HAMMOCK_FUNCTION(kNarrowCopy, "narrow_copy(Tensor self, int dim, int start, int length) -> Tensor",
                 "A copy of a range of one dim.", narrow_copy)
HAMMOCK_FUNCTION(kUnsafeView, "_unsafe_view(Tensor self, int[] size) -> Tensor",
                 "As view, without sharing memory.", UnsafeView)
HAMMOCK_FUNCTION(kDimArange, "_dim_arange(Tensor like, int dim) -> Tensor",
                 "The indices of one dim.", DimArange)
HAMMOCK_FUNCTION(kIndexPutImpl,
                 "_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool "
                 "accumulate=False, bool unsafe=False) -> Tensor(a!)",
                 "index_put in place; indices are always checked.", IndexPutImpl)
HAMMOCK_FUNCTION(kEmptyStrided,
                 "empty_strided(int[] size, int[] stride, *, ScalarType? dtype=None, Device? "
                 "device=None) -> Tensor",
                 "Zeros whose elements lie `stride` apart.", empty_strided)
HAMMOCK_FUNCTION(kResize, "resize_(Tensor(a!) self, int[] size) -> Tensor(a!)",
                 "Other sizes for the same elements; more are zero.", resize_)
constinit const OpDef kWhereOne = {
    .schema = "where.condition(Tensor condition) -> Tensor[]",
    .doc = "Coordinates of the true elements, one vector a dim; reads their count.",
    .call = CallWhere,
};
constinit const OpDef kIsSigned = {
    .schema = "is_signed(Tensor self) -> bool",
    .doc = "Whether the dtype has negative numbers.",
    .call = CallIsSigned,
};
constinit const OpDef kIsFloat = {
    .schema = "is_floating_point(Tensor self) -> bool",
    .doc = "Whether the dtype is floating.",
    .call = CallIsFloat,
};
constinit const OpDef kIsComplex = {
    .schema = "is_complex(Tensor self) -> bool",
    .doc = "Whether the dtype is complex.",
    .call = CallIsComplex,
};
constinit const OpDef kIsAlias = {
    .schema = "is_alias_of(Tensor self, Tensor other) -> bool",
    .doc = "Whether writing one may change the other.",
    .call = CallIsAlias,
};

HAMMOCK_FUNCTION(kSoftmax, "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
                 "Same as softmax.", _softmax)
HAMMOCK_FUNCTION(kLogSoftmax, "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
                 "Same as log_softmax.", _log_softmax)
HAMMOCK_FUNCTION(kLogSigmoidForward, "log_sigmoid_forward(Tensor self) -> (Tensor, Tensor)",
                 "log_sigmoid and exp(-|x|).", log_sigmoid_forward)
#define HAMMOCK_PAD(name, count, about) \
  HAMMOCK_FUNCTION(k_##name, #name "(Tensor self, int[" #count "] padding) -> Tensor", about, name)
HAMMOCK_PAD(reflection_pad1d, 2, "Adds elements mirrored at the ends.")
HAMMOCK_PAD(reflection_pad2d, 4, "Adds elements mirrored at the ends.")
HAMMOCK_PAD(reflection_pad3d, 6, "Adds elements mirrored at the ends.")
HAMMOCK_PAD(replication_pad1d, 2, "Repeats the elements at the ends.")
HAMMOCK_PAD(replication_pad2d, 4, "Repeats the elements at the ends.")
HAMMOCK_PAD(replication_pad3d, 6, "Repeats the elements at the ends.")
#undef HAMMOCK_PAD

}  // namespace

std::span<const OpDef* const> ops::InnerNameOps() {
  static constexpr const OpDef* kOps[] = {
      &kNarrowTensor,
      &kNarrowCopy,
      &kUnsafeView,
      &kDimArange,
      &kIndexPutImpl,
      &kEmptyStrided,
      &kResize,
      &kWhereOne,
      &kIsSigned,
      &kIsFloat,
      &kIsComplex,
      &kIsAlias,
      &kSoftmax,
      &kLogSoftmax,
      &kLogSigmoidForward,
      &k_reflection_pad1d,
      &k_reflection_pad2d,
      &k_reflection_pad3d,
      &k_replication_pad1d,
      &k_replication_pad2d,
      &k_replication_pad3d,
  };
  return kOps;
}

}  // namespace hammock
