#include <algorithm>

#include "hammock/op_builder.h"
#include "hammock/ops/operators.h"
#include "hammock/ops/shape.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/cost.h"
#include "ops/kit/record.h"
#include "ops/primitives/complex_parts.h"
#include "trace/alias.h"

namespace hammock::ops {
namespace {

void InferReshape(const InferCall& call) {
  const Shape& self = *call.in[0];
  Dims sizes = call.attrs[0].ints();
  CheckSizes(call.op.name(), sizes);
  Shape result = self.With(sizes);
  if (result.numel() != self.numel()) {
    Refuse(call, ErrorCode::kShapeMismatch, "shape {} is invalid for {} of {} elements",
           ToString(sizes), self.to_string(), self.numel());
  }
  call.out = {result};
}

void InferBroadcast(const InferCall& call) {
  const Shape& self = *call.in[0];
  Dims sizes = call.attrs[0].ints();
  CheckSizes(call.op.name(), sizes);
  int added = sizes.size() - self.rank();
  bool fits = added >= 0;
  for (int d = 0; fits && d < self.rank(); ++d) {
    fits = self.size(d) == sizes[d + added] || self.size(d) == 1;
  }
  if (!fits) {
    Refuse(call, ErrorCode::kShapeMismatch,
           "{} does not broadcast to {}: aligned right, each size must be equal or 1",
           self.to_string(), ToString(sizes));
  }
  call.out = {self.With(sizes)};
}

void InferPermute(const InferCall& call) {
  const Shape& self = *call.in[0];
  const std::vector<int64_t>& dims = CheckedList(call, 0, self.rank());
  bool seen[kMaxRank] = {};
  Dims sizes;
  for (int64_t dim : dims) {
    int d = CheckedDim(call, dim, self);
    if (seen[d]) Refuse(call, ErrorCode::kValue, "duplicate dims are not allowed: {} twice", d);
    seen[d] = true;
    sizes.push_back(self.size(d));
  }
  call.out = {self.With(sizes)};
}

/// Checks what is known of a slice when tracing: `start` is -1 where it is not.
void CheckSlice(const InferCall& call, const Shape& self, int dim, int64_t start, int64_t size,
                int64_t step) {
  if (step < 1) Refuse(call, ErrorCode::kValue, "step is {}, needs at least 1", step);
  if (size < 0) Refuse(call, ErrorCode::kNegativeSize, "size is {}, needs at least 0", size);
  int64_t extent = self.size(dim);
  // size <= extent first, so that the span cannot overflow by much.
  bool fits = size <= extent && (size == 0 || size == 1 || (extent - 1) / (size - 1) >= step);
  if (fits && start >= 0) fits = start + (size == 0 ? 0 : (size - 1) * step + 1) <= extent;
  if (fits) return;
  Refuse(call, ErrorCode::kIndexOutOfRange,
         "start ({}) + length ({}) by step ({}) exceeds dimension {} of {}",
         start < 0 ? "any" : std::to_string(start), size, step, dim, self.to_string());
}

void RequireRank(const InferCall& call, const Shape& self) {
  if (self.rank() == 0) {
    Refuse(call, ErrorCode::kShapeMismatch, "a 0-d tensor cannot be sliced: {}", self.to_string());
  }
}

Shape Sliced(const Shape& self, int dim, int64_t size) {
  Dims sizes = self.sizes();
  sizes[dim] = size;
  return self.With(sizes);
}

void RequireStart(const InferCall& call, int64_t start) {
  if (start < 0) {
    Refuse(call, ErrorCode::kIndexOutOfRange, "start is {}, needs at least 0", start);
  }
}

void InferSlice(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireRank(call, self);
  int dim = CheckedDim(call, call.attrs[0].integer(), self);
  RequireStart(call, call.attrs[1].integer());
  int64_t size = call.attrs[2].integer();
  CheckSlice(call, self, dim, call.attrs[1].integer(), size, call.attrs[3].integer());
  call.out = {Sliced(self, dim, size)};
}

void RequireIntegerStart(const InferCall& call, const Shape& start) {
  RequireScalar(call, start, "start");
  RequireDType(call, IsIntegral(start.dtype()) && start.dtype() != DType::kBool, start,
               "an integer start");
}

void InferDynamicSlice(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireRank(call, self);
  RequireIntegerStart(call, *call.in[1]);
  int dim = CheckedDim(call, call.attrs[0].integer(), self);
  int64_t size = call.attrs[1].integer();
  CheckSlice(call, self, dim, -1, size, call.attrs[2].integer());
  call.out = {Sliced(self, dim, size)};
}

void InferDynamicSelect(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireRank(call, self);
  RequireIntegerStart(call, *call.in[1]);
  int dim = CheckedDim(call, call.attrs[0].integer(), self);
  CheckSlice(call, self, dim, -1, 1, 1);
  Dims sizes = self.sizes();
  sizes.erase(dim);
  call.out = {self.With(sizes)};
}

/// The value that overwrites self[dim] must agree in dtype and in all other sizes.
void CheckSource(const InferCall& call, const Shape& self, const Shape& source, int dim) {
  RequireSameDType(call, self, source);
  bool fits = self.rank() == source.rank();
  for (int d = 0; fits && d < self.rank(); ++d) fits = d == dim || self.size(d) == source.size(d);
  if (fits) return;
  Refuse(call, ErrorCode::kShapeMismatch, "source {} must equal {} except in dimension {}",
         source.to_string(), self.to_string(), dim);
}

void InferUpdateSlice(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireRank(call, self);
  int dim = CheckedDim(call, call.attrs[0].integer(), self);
  RequireStart(call, call.attrs[1].integer());
  CheckSource(call, self, *call.in[1], dim);
  CheckSlice(call, self, dim, call.attrs[1].integer(), call.in[1]->size(dim),
             call.attrs[2].integer());
  call.out = {self};
}

void InferDynamicUpdateSlice(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireRank(call, self);
  RequireIntegerStart(call, *call.in[2]);
  int dim = CheckedDim(call, call.attrs[0].integer(), self);
  CheckSource(call, self, *call.in[1], dim);
  CheckSlice(call, self, dim, -1, call.in[1]->size(dim), call.attrs[1].integer());
  call.out = {self};
}

void InferPad(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireScalar(call, *call.in[1], "value");
  const std::vector<int64_t>& low = CheckedList(call, 0, self.rank());
  const std::vector<int64_t>& high = CheckedList(call, 1, self.rank());
  Dims sizes = self.sizes();
  for (int d = 0; d < self.rank(); ++d) {
    sizes[d] += low[d] + high[d];
    if (sizes[d] < 0) {
      Refuse(call, ErrorCode::kNegativeSize,
             "low {} and high {} leave dimension {} of {} with size {}", low[d], high[d], d,
             self.to_string(), sizes[d]);
    }
  }
  CheckSizes(call.op.name(), sizes);
  call.out = {self.With(sizes)};
}

void InferConcat(const InferCall& call) {
  if (call.in.empty()) Refuse(call, ErrorCode::kValue, "expected a non-empty list of tensors");
  const Shape& first = *call.in[0];
  if (first.rank() == 0) {
    Refuse(call, ErrorCode::kShapeMismatch, "zero-dimensional tensors cannot be concatenated");
  }
  int dim = CheckedDim(call, call.attrs[0].integer(), first);
  Dims sizes = first.sizes();
  for (size_t i = 1; i < call.in.size(); ++i) {
    CheckSource(call, first, *call.in[i], dim);
    sizes[dim] += call.in[i]->size(dim);
  }
  CheckSizes(call.op.name(), sizes);
  call.out = {first.With(sizes)};
}

void InferFlip(const InferCall& call) {
  const Shape& self = *call.in[0];
  bool seen[kMaxRank] = {};
  for (int64_t dim : call.attrs[0].ints()) {
    int d = CheckedDim(call, dim, self);
    if (seen[d]) Refuse(call, ErrorCode::kValue, "dim {} appears multiple times in dims", d);
    seen[d] = true;
  }
  call.out = {self};
}

/// Every element that the strides reach must lie in the flattened tensor.
void CheckStrided(const InferCall& call, const Shape& self, const Dims& sizes,
                  std::span<const int64_t> strides, int64_t offset) {
  if (strides.size() != static_cast<size_t>(sizes.size())) {
    Refuse(call, ErrorCode::kValue, "{} sizes but {} strides", sizes.size(), strides.size());
  }
  CheckSizes(call.op.name(), sizes);
  int64_t last = offset;
  bool empty = false;
  bool overflow = false;
  for (int d = 0; d < sizes.size(); ++d) {
    if (strides[d] < 0) {
      Refuse(call, ErrorCode::kValue, "stride {} is negative, needs at least 0", strides[d]);
    }
    empty |= sizes[d] == 0;
    int64_t reach = 0;
    overflow |= sizes[d] > 1 && (__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) ||
                                 __builtin_add_overflow(last, reach, &last));
  }
  if (offset < 0 || (!empty && (overflow || last >= self.numel()))) {
    Refuse(call, ErrorCode::kIndexOutOfRange,
           "sizes {}, strides {} and offset {} reach outside {} of {} elements", ToString(sizes),
           ToString(Dims(strides)), offset, self.to_string(), self.numel());
  }
}

void InferAsStrided(const InferCall& call) {
  const Shape& self = *call.in[0];
  Dims sizes = call.attrs[0].ints();
  CheckStrided(call, self, sizes, call.attrs[1].ints(), call.attrs[2].integer());
  call.out = {self.With(sizes)};
}

void InferAsStridedScatter(const InferCall& call) {
  const Shape& self = *call.in[0];
  const Shape& source = *call.in[1];
  RequireSameDType(call, self, source);
  CheckStrided(call, self, source.sizes(), call.attrs[0].ints(), call.attrs[1].integer());
  call.out = {self};
}

// ---- gradients

Tensors ReshapeVjp(const VjpCall& c) { return {Reshaped(c.grad(), c.in[0].sizes())}; }

Tensors BroadcastVjp(const VjpCall& c) { return {SummedTo(c.grad(), c.in[0].sizes())}; }

Tensors PermuteVjp(const VjpCall& c) {
  const auto& dims = c.attrs[0].ints();
  Dims inverse = Dims::Filled(static_cast<int>(dims.size()), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    inverse[static_cast<int>(dims[i])] = static_cast<int64_t>(i);
  }
  return {Permuted(c.grad(), inverse)};
}

// {dim, start, size, step} -> {dim, start, step}
Tensors SliceVjp(const VjpCall& c) {
  return {Apply(kUpdateSlice, Location(), {ZerosLike(c.in[0].shape(), c.grad()), c.grad()},
                {c.attrs[0], c.attrs[1], c.attrs[3]})};
}

// {dim, size, step} -> {dim, step}
Tensors DynamicSliceVjp(const VjpCall& c) {
  Tensor zeros = ZerosLike(c.in[0].shape(), c.grad());
  return {
      Apply(kDynamicUpdateSlice, Location(), {zeros, c.grad(), c.in[1]}, {c.attrs[0], c.attrs[2]}),
      Tensor()};
}

Tensors ExpandDynamicSelect(const ExpandCall& c) {
  Tensor slice = Apply(kDynamicSlice, Location(), {c.in[0], c.in[1]}, {c.attrs[0], 1, 1});
  return {Reshaped(slice, c.out[0].sizes())};
}

// {dim} -> {dim, step}
Tensors DynamicSelectVjp(const VjpCall& c) {
  const Shape& type = c.in[0].shape();
  Shape slice = Sliced(type, static_cast<int>(c.attrs[0].integer()), 1);
  Tensor grad = Reshaped(c.grad(), slice.sizes());
  Tensor zeros = ZerosLike(type, grad);
  return {Apply(kDynamicUpdateSlice, Location(), {zeros, grad, c.in[1]}, {c.attrs[0], 1}),
          Tensor()};
}

Tensors UpdateSliceVjp(const VjpCall& c) {
  const Tensor& g = c.grad();
  int64_t size = ExtentOf(c.in[1].shape(), static_cast<int>(c.attrs[0].integer()));
  return {c.needs(0) ? Apply(kUpdateSlice, Location(), {g, ZerosLike(c.in[1].shape(), g)},
                             {c.attrs[0], c.attrs[1], c.attrs[2]})
                     : Tensor(),
          c.needs(1) ? Apply(kSlice, Location(), {g}, {c.attrs[0], c.attrs[1], size, c.attrs[2]})
                     : Tensor()};
}

Tensors DynamicUpdateSliceVjp(const VjpCall& c) {
  const Tensor& g = c.grad();
  int64_t size = ExtentOf(c.in[1].shape(), static_cast<int>(c.attrs[0].integer()));
  return {c.needs(0) ? Apply(kDynamicUpdateSlice, Location(),
                             {g, ZerosLike(c.in[1].shape(), g), c.in[2]}, {c.attrs[0], c.attrs[1]})
                     : Tensor(),
          c.needs(1)
              ? Apply(kDynamicSlice, Location(), {g, c.in[2]}, {c.attrs[0], size, c.attrs[1]})
              : Tensor(),
          Tensor()};
}

Tensors PadVjp(const VjpCall& c) {
  Dims low(c.attrs[0].ints()), high(c.attrs[1].ints());
  for (int d = 0; d < low.size(); ++d) {
    low[d] = -low[d];
    high[d] = -high[d];
  }
  Tensor to_self = Apply(kPad, Location(), {c.grad(), ConstantLike(0, c.grad())}, {low, high});
  if (!c.needs(1)) return {to_self, Tensor()};
  // The part outside of `self`.
  Dims all;
  for (int d = 0; d < c.grad().dim(); ++d) all.push_back(d);
  auto total = [&](const Tensor& x) { return Apply(kReduceSum, Location(), {x}, {all, false}); };
  return {to_self, total(c.grad()) - total(to_self)};
}

Tensors ConcatVjp(const VjpCall& c) {
  int dim = static_cast<int>(c.attrs[0].integer());
  Tensors grads;
  int64_t start = 0;
  for (const Tensor& part : c.in) {
    int64_t size = part.shape().size(dim);
    grads.push_back(ops::Sliced(c.grad(), dim, start, size));
    start += size;
  }
  return grads;
}

Tensors FlipVjp(const VjpCall& c) { return {Apply(kFlip, Location(), {c.grad()}, {c.attrs[0]})}; }

Tensors AsStridedVjp(const VjpCall& c) {
  Dims sizes(c.attrs[0].ints()), strides(c.attrs[1].ints());
  int64_t offset = c.attrs[2].integer();
  Tensor zeros = ZerosLike(c.in[0].shape(), c.grad());
  if (c.grad().numel() == 0) return {zeros};
  if (!SelfOverlaps({sizes, strides, offset})) {
    return {Apply(kAsStridedScatter, Location(), {zeros, c.grad()}, {strides, offset})};
  }
  // Several elements may show one address: their gradients add up there.
  Tensor addresses = Filled(sizes, offset, DType::kI64, c.grad());
  for (int d = 0; d < sizes.size(); ++d) {
    addresses = addresses + CountingAlong(d, sizes.size(), sizes[d], c.grad()) * strides[d];
  }
  int64_t count = c.grad().numel();
  Tensor flat = AddedAlong(Reshaped(zeros, {zeros.numel()}), 0, Reshaped(addresses, {count}),
                           Reshaped(c.grad(), {count}));
  return {Reshaped(flat, zeros.sizes())};
}

Tensors AsStridedScatterVjp(const VjpCall& c) {
  const Tensor& g = c.grad();
  return {c.needs(0) ? Apply(kAsStridedScatter, Location(), {g, ZerosLike(c.in[1].shape(), g)},
                             {c.attrs[0], c.attrs[1]})
                     : Tensor(),
          c.needs(1)
              ? Apply(kAsStrided, Location(), {g}, {Attr(c.in[1].sizes()), c.attrs[0], c.attrs[1]})
              : Tensor()};
}

}  // namespace

constinit const OpDef kReshape = {
    .schema = "reshape(Tensor self, SymInt[] sizes) -> Tensor",
    .doc = "The same elements in row-major order with other sizes.",
    .infer = InferReshape,
    .complex = EachPart,
    .vjp = ReshapeVjp,
    .samples = {{"f32[2,6]", "{sizes=[3,4]}"}, {"f32[1,1]", "{sizes=[]}"}},
};
constinit const OpDef kBroadcast = {
    .schema = "broadcast(Tensor self, SymInt[] sizes) -> Tensor",
    .doc = "Repeats along new dims on the left and along dims of size 1.",
    .infer = InferBroadcast,
    .complex = EachPart,
    .vjp = BroadcastVjp,
    .samples = {{"f32[3,1]", "{sizes=[2,3,4]}"}, {"f32[]", "{sizes=[2,2]}"}},
};
constinit const OpDef kPermute = {
    .schema = "permute(Tensor self, int[] dims) -> Tensor",
    .doc = "Dim i of the result is dim dims[i] of `self`.",
    .infer = InferPermute,
    .complex = EachPart,
    .vjp = PermuteVjp,
    .samples = {{"f32[2,3,4]", "{dims=[2,0,1]}"}, {"f32[2,3]", "{dims=[1,0]}"}},
};
constinit const OpDef kSlice = {
    .schema = "slice(Tensor self, int dim, SymInt start, SymInt size, int step=1) -> Tensor",
    .doc = "`size` elements of `dim`, from `start` by `step`.",
    .infer = InferSlice,
    .complex = EachPart,
    .vjp = SliceVjp,
    .bytes = OfSelected,
    .samples = {{"f32[5,3]", "{dim=0, start=1, size=2, step=2}"},
                {"f32[2,4]", "{dim=1, start=3, size=1, step=1}"}},
};
constinit const OpDef kDynamicSlice = {
    .schema =
        "dynamic_slice(Tensor self, Scalar start, int dim, SymInt size, int step=1) -> Tensor",
    .doc = "As slice, with a start that is known only when running.",
    .infer = InferDynamicSlice,
    .complex = EachPart,
    .vjp = DynamicSliceVjp,
    .can_fail = true,
    .bytes = OfSelected,
    .samples = {{"f32[5,3] i64[]", "{dim=0, size=2, step=1}"}},
};
constinit const OpDef kDynamicSelect = {
    .schema = "dynamic_select(Tensor self, Scalar index, int dim) -> Tensor",
    .doc = "As select, with an index that is known only when running.",
    .infer = InferDynamicSelect,
    .expand = ExpandDynamicSelect,
    .vjp = DynamicSelectVjp,
    .can_fail = true,
    .samples = {{"f32[5,3] i64[]", "{dim=0}"}, {"f32[3] i64[]", "{dim=0}"}},
};
constinit const OpDef kUpdateSlice = {
    .schema =
        "update_slice(Tensor self, Tensor source, int dim, SymInt start, int step=1) -> Tensor",
    .doc = "`self` with a slice of `dim` replaced by `source`.",
    .infer = InferUpdateSlice,
    .complex = EachPart,
    .vjp = UpdateSliceVjp,
    .samples = {{"f32[5,3] f32[2,3]", "{dim=0, start=1, step=2}"}},
};
constinit const OpDef kDynamicUpdateSlice = {
    .schema =
        "dynamic_update_slice(Tensor self, Tensor source, Scalar start, int dim, "
        "int step=1) -> Tensor",
    .doc = "As update_slice, with a start that is known only when running.",
    .infer = InferDynamicUpdateSlice,
    .complex = EachPart,
    .vjp = DynamicUpdateSliceVjp,
    .can_fail = true,
    .samples = {{"f32[5,3] f32[2,3] i64[]", "{dim=0, step=1}"}},
};
constinit const OpDef kPad = {
    .schema = "pad_constant(Tensor self, Scalar value, SymInt[] low, SymInt[] high) -> Tensor",
    .doc = "Adds `value` before and after each dim; negative amounts crop.",
    .infer = InferPad,
    .complex = EachPart,
    .vjp = PadVjp,
    .samples = {{"f32[2,3] f32[]", "{low=[1,0], high=[0,2]}"},
                {"f32[4] f32[]", "{low=[-1], high=[2]}"}},
};
constinit const OpDef kConcat = {
    .schema = "concat(Tensor[] tensors, int dim=0) -> Tensor",
    .doc = "Joins tensors of one dtype along `dim`.",
    .infer = InferConcat,
    .complex = EachPart,
    .vjp = ConcatVjp,
    .samples = {{"f32[2,3] f32[1,3]", "{dim=0}"}, {"f32[2,1] f32[2,0] f32[2,2]", "{dim=1}"}},
};
constinit const OpDef kFlip = {
    .schema = "flip(Tensor self, int[] dims) -> Tensor",
    .doc = "Reverses the order along `dims`.",
    .call = Box<hammock::flip>,
    .infer = InferFlip,
    .complex = EachPart,
    .vjp = FlipVjp,
    .samples = {{"f32[2,3]", "{dims=[0,1]}"}, {"f32[4]", "{dims=[0]}"}},
};
constinit const OpDef kAsStrided = {
    .schema =
        "as_strided(Tensor self, SymInt[] sizes, SymInt[] strides, SymInt offset=0) -> Tensor",
    .doc = "Elements of the flattened `self`, addressed by strides.",
    .infer = InferAsStrided,
    .complex = EachPart,
    .vjp = AsStridedVjp,
    .bytes = OfSelected,
    .samples = {{"f32[3,4]", "{sizes=[2,3], strides=[4,1], offset=1}"},
                {"f32[6]", "{sizes=[4,3], strides=[1,1], offset=0}"}},
};
constinit const OpDef kAsStridedScatter = {
    .schema =
        "as_strided_scatter(Tensor self, Tensor source, SymInt[] strides, SymInt offset=0) "
        "-> Tensor",
    .doc = "`self` with the elements that as_strided addresses replaced by `source`.",
    .infer = InferAsStridedScatter,
    .complex = EachPart,
    .vjp = AsStridedScatterVjp,
    .samples = {{"f32[3,4] f32[2,2]", "{strides=[4,1], offset=1}"}},
};

}  // namespace hammock::ops
