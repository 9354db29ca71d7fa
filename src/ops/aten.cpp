// Forms that PyTorch has beside those that programs write: questions about a tensor, arguments that
// are tensors where others are numbers, and names with an underscore that its own code calls.

#include "base/throw.h"
#include "hammock/ops/create.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "lazy/layout.h"
#include "lazy/tensor_impl.h"
#include "ops/compose.h"
#include "ops/families.h"
#include "ops/index_steps.h"
#include "ops/primitives.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

Tensor narrow_copy(const Tensor& self, int64_t dim, int64_t start, int64_t length, Location at) {
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
  SetNode(*self.impl(), resized.value());
  SetStrides(*self.impl(), ContiguousStrides(size));
  return self;
}

// ---- Loss scaling

namespace {

/// Whether any element is infinite or NaN, as 1 or 0 in f32[1].
Tensor AnyNotFinite(const Tensor& x) {
  Tensor bad = any(Reshaped(logical_not(isfinite(x)), {x.numel()}));
  return Reshaped(Casted(bad, DType::kF32), {1});
}

Tensor Unscaled(const Tensor& x, const Tensor& inv_scale) {
  Tensor scale = Reshaped(inv_scale, {});
  return Casted(mul(Casted(x, WideFloat(x.dtype())), scale), x.dtype());
}

struct Scales {
  std::vector<Tensor> unscaled;
  Tensor found_inf;
};

Scales CheckAndUnscale(const std::vector<Tensor>& self, const Tensor& found_inf,
                       const Tensor& inv_scale) {
  const char* op = "_amp_foreach_non_finite_check_and_unscale_";
  if (found_inf.numel() != 1 || inv_scale.numel() != 1 || found_inf.dtype() != DType::kF32 ||
      inv_scale.dtype() != DType::kF32) {
    Throw(ErrorCode::kValue, "{}: found_inf and inv_scale must be one f32, got {} and {}", op,
          found_inf.shape().to_string(), inv_scale.shape().to_string());
  }
  Scales result{{}, found_inf};
  for (const Tensor& x : self) {
    NeedFloat(op, x);
    Tensor bad = Reshaped(AnyNotFinite(x), found_inf.sizes());
    result.found_inf = maximum(result.found_inf, bad);
    result.unscaled.push_back(Unscaled(x, inv_scale));
  }
  return result;
}

void CheckAndUnscaleInPlace(const std::vector<Tensor>& self, const Tensor& found_inf,
                            const Tensor& inv_scale, Location at) {
  LocationScope scope(at);
  Scales result = CheckAndUnscale(self, found_inf, inv_scale);
  for (size_t i = 0; i < self.size(); ++i) {
    Tensor target = self[i];
    WriteInPlace("_amp_foreach_non_finite_check_and_unscale_", target, result.unscaled[i]);
  }
  Tensor found = found_inf;
  WriteInPlace("_amp_foreach_non_finite_check_and_unscale_", found, result.found_inf);
}

/// The next scale and growth tracker: smaller after a step that was not finite, larger after
/// `growth_interval` good ones in a row.
std::tuple<Tensor, Tensor> UpdatedScale(const Tensor& scale, const Tensor& tracker,
                                        const Tensor& found_inf, double growth, double backoff,
                                        int64_t interval, Location at) {
  LocationScope scope(at);
  if (tracker.numel() != 1 || scale.numel() != 1 || found_inf.numel() != 1 ||
      tracker.dtype() != DType::kI32 || scale.dtype() != DType::kF32) {
    Throw(ErrorCode::kValue,
          "_amp_update_scale_: needs one f32 scale, one i32 growth_tracker and one found_inf, got "
          "{}, {} and {}",
          scale.shape().to_string(), tracker.shape().to_string(), found_inf.shape().to_string());
  }
  Tensor bad = Reshaped(ne(found_inf, 0), {});
  Tensor good_steps = tracker + ConstantLike(1, tracker);
  Tensor grows = eq(good_steps, ConstantLike(interval, tracker));
  Tensor grown = scale * growth;
  // A scale that would overflow stays.
  Tensor kept = where(logical_and(Reshaped(grows, scale.sizes()), isfinite(grown)), grown, scale);
  Tensor zero = ConstantLike(0, tracker);
  return {where(bad, scale * backoff, kept), where(logical_or(bad, grows), zero, good_steps)};
}

Tensor& UpdateScale(Tensor& self, const Tensor& growth_tracker, const Tensor& found_inf,
                    double growth, double backoff, int64_t interval, Location at) {
  LocationScope scope(at);
  auto [scale, tracker] =
      UpdatedScale(self, growth_tracker, found_inf, growth, backoff, interval, at);
  Tensor target = growth_tracker;
  WriteInPlace("_amp_update_scale_", target, tracker);
  return WriteInPlace("_amp_update_scale_", self, scale);
}

Any CallCheckAndUnscale(std::span<const Any> args) {
  LocationScope scope(Location::current());
  Scales result =
      CheckAndUnscale(boxing::ToTensors(args[0]), args[1].ToTensor(), args[2].ToTensor());
  return Any::Tuple({boxing::FromTensors(result.unscaled), Any(result.found_inf)});
}

// ---- Small forms

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
HAMMOCK_FUNCTION(kUpdateScale,
                 "_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, "
                 "float scale_growth_factor, float scale_backoff_factor, int growth_interval) -> "
                 "Tensor(a!)",
                 "The loss scale for the next step.", UpdateScale)
HAMMOCK_FUNCTION(kUpdatedScale,
                 "_amp_update_scale(Tensor self, Tensor growth_tracker, Tensor found_inf, float "
                 "scale_growth_factor, float scale_backoff_factor, int growth_interval) -> "
                 "(Tensor, Tensor)",
                 "The loss scale and growth tracker for the next step.", UpdatedScale)
HAMMOCK_FUNCTION(kUnscaleI,
                 "_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) "
                 "found_inf, Tensor inv_scale) -> ()",
                 "Multiplies by `inv_scale`; `found_inf` becomes 1 if anything was not finite.",
                 CheckAndUnscaleInPlace)
constinit const OpDef kUnscale = {
    .schema =
        "_amp_foreach_non_finite_check_and_unscale(Tensor[] self, Tensor found_inf, Tensor "
        "inv_scale) -> Any",
    .doc = "(unscaled tensors, found_inf): the functional form.",
    .call = CallCheckAndUnscale,
};
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
constinit const OpDef kIsAlias = {
    .schema = "is_alias_of(Tensor self, Tensor other) -> bool",
    .doc = "Whether writing one may change the other.",
    .call = CallIsAlias,
};

}  // namespace

std::span<const OpDef* const> ops::AtenOps() {
  static constexpr const OpDef* kOps[] = {
      &kNarrowTensor, &kNarrowCopy, &kUnsafeView,  &kDimArange,    &kIndexPutImpl,
      &kEmptyStrided, &kResize,     &kUpdateScale, &kUpdatedScale, &kUnscaleI,
      &kUnscale,      &kWhereOne,   &kIsSigned,    &kIsFloat,      &kIsAlias,

  };
  return kOps;
}

}  // namespace hammock
