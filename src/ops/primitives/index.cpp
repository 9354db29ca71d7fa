#include "hammock/ops/index.h"
#include "hammock/ir/storage_types.h"
#include "hammock/op_builder.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/operators.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/cost.h"
#include "ops/kit/record.h"
#include "ops/primitives/complex_parts.h"

namespace hammock::ops {
namespace {

/// PyTorch's rule: in every dim but `dim`, `index` is no larger than `other`.
void CheckIndexSizes(const InferCall& call, const Shape& index, const Shape& other,
                     const char* name, int dim) {
  auto rank = [](const Shape& type) { return type.rank() == 0 ? 1 : type.rank(); };
  if (index.numel() == 0) return;
  bool fits = rank(index) == rank(other);
  for (int d = 0; fits && d < rank(index); ++d) {
    fits = d == dim || ExtentOf(index, d) <= ExtentOf(other, d);
  }
  if (fits) return;
  Refuse(call, ErrorCode::kShapeMismatch, "index {} must have the rank of {} {} and be no larger{}",
         index.to_string(), name, other.to_string(),
         dim < 0 ? "" : fmt::format(" except in dimension {}", dim));
}

void InferGather(const InferCall& call) {
  const Shape& self = *call.in[0];
  const Shape& index = *call.in[1];
  RequireIndex(call, index);
  int dim = CheckedDim(call, call.attrs[0].integer(), self);
  CheckIndexSizes(call, index, self, "self", dim);
  call.out = {self.With(index.sizes())};
}

void InferScatter(const InferCall& call) {
  const Shape& self = *call.in[0];
  const Shape& index = *call.in[1];
  const Shape& source = *call.in[2];
  RequireIndex(call, index);
  RequireSameDType(call, self, source);
  int dim = CheckedDim(call, call.attrs[0].integer(), self);
  CheckIndexSizes(call, index, self, "self", dim);
  CheckIndexSizes(call, index, source, "source", -1);
  const std::string& reduce = call.attrs[1].str();
  bool known = false;
  for (const char* name : {"none", "sum", "prod", "amax", "amin"}) known |= reduce == name;
  if (!known) {
    Refuse(call, ErrorCode::kValue, "unknown reduce '{}', needs none, sum, prod, amax or amin",
           reduce);
  }
  bool ordered = reduce != "none" && reduce != "sum";
  RequireDType(call, !ordered || !IsComplex(self.dtype()), self,
               "real numbers to multiply or to compare");
  RequireDType(call, reduce == "none" || !IsStorage(self.dtype()), self, "numbers to combine");
  call.out = {self};
}

void InferIndexSelect(const InferCall& call) {
  const Shape& self = *call.in[0];
  const Shape& index = *call.in[1];
  RequireIndex(call, index);
  if (index.rank() > 1) {
    Refuse(call, ErrorCode::kShapeMismatch, "index {} must be a vector", index.to_string());
  }
  int dim = CheckedDim(call, call.attrs[0].integer(), self);
  Dims sizes = self.sizes();
  if (self.rank() == 0 && index.numel() != 1) {
    Refuse(call, ErrorCode::kShapeMismatch, "index {} into a 0-d tensor must have one element",
           index.to_string());
  }
  if (self.rank() > 0) sizes[dim] = index.numel();
  CheckSizes(call.op.name(), sizes);
  call.out = {self.With(sizes)};
}

void InferNonzero(const InferCall& call) {
  const Shape& self = *call.in[0];
  Dims sizes = {call.attrs[0].integer(), self.rank()};
  CheckSizes(call.op.name(), sizes);
  call.out = {Shape(DType::kI64, sizes)};
}

void InferSort(const InferCall& call) {
  const Shape& self = *call.in[0];
  CheckedDim(call, call.attrs[0].integer(), self);
  call.out = {self, self.With(DType::kI64)};
}

void InferTopK(const InferCall& call) {
  const Shape& self = *call.in[0];
  int64_t k = call.attrs[0].integer();
  int dim = CheckedDim(call, call.attrs[1].integer(), self);
  if (k < 0 || k > ExtentOf(self, dim)) {
    Refuse(call, ErrorCode::kValue, "selected index k out of range: {} of dimension {} of {}", k,
           dim, self.to_string());
  }
  Dims sizes = self.sizes();
  if (self.rank() > 0) sizes[dim] = k;
  call.out = {self.With(sizes), Shape(DType::kI64, sizes)};
}

// ---- gradients

Tensor ScatterSum(const Tensor& x, const Tensor& index, const Tensor& source, const Attr& dim) {
  return Apply(kScatter, Location(), {x, index, source}, {dim, "sum"});
}
Tensor GatherAt(const Tensor& x, const Tensor& index, const Attr& dim) {
  return Apply(kGather, Location(), {x, index}, {dim});
}

/// Whether each line along `dim` has one index.
bool TakesOneOfEachLine(const Shape& x, const Shape& index, int dim) {
  if (x.rank() == 0) return false;
  Dims lines = x.sizes();
  lines[dim] = 1;
  return index.sizes() == lines;
}

/// The gradient of one element of each line, without a scatter. The result of the op, which has
/// checked the indices, comes first.
Tensor ScatteredOne(const VjpCall& c, int dim) {
  const Shape& type = c.in[0].shape();
  const Tensor operands[] = {c.in[1], c.out[0]};
  Tensor index = Apply(kBarrier, Location(), std::span<const Tensor>(operands));
  Tensor here = CountingAlong(dim, type.rank(), type.size(dim), index) == index;
  Tensor grad = c.grad() + ZerosLike(c.grad().shape(), c.grad());
  return where(here, grad, ZerosLike(type, grad));
}

Tensors GatherVjp(const VjpCall& c) {
  const int dim = static_cast<int>(c.attrs[0].integer());
  if (TakesOneOfEachLine(c.in[0].shape(), c.in[1].shape(), dim)) {
    return {ScatteredOne(c, dim), Tensor()};
  }
  return {ScatterSum(ZerosLike(c.in[0].shape(), c.grad()), c.in[1], c.grad(), c.attrs[0]),
          Tensor()};
}

Tensors IndexSelectVjp(const VjpCall& c) {
  int dim = static_cast<int>(c.attrs[0].integer());
  Tensor zeros = ZerosLike(c.in[0].shape(), c.grad());
  if (c.in[0].dim() == 0) {
    Tensor g = Reshaped(c.grad(), {c.grad().numel()});
    return {Reshaped(AddedAlong(Reshaped(zeros, {1}), 0, c.in[1], g), {}), Tensor()};
  }
  return {AddedAlong(zeros, dim, c.in[1], c.grad()), Tensor()};
}

/// An element that an extreme came from gets its share; equals share alike.
Tensors ScatterExtremeVjp(const VjpCall& c) {
  const Attr& dim = c.attrs[0];
  const Tensor &self = c.in[0], &index = c.in[1], &source = c.in[2], &y = c.out[0];
  DType dtype = self.dtype();
  Tensor kept = Casted(eq(self, y), dtype);
  Tensor won = Casted(eq(source, GatherAt(y, index, dim)), dtype);
  Tensor share = c.grad() / maximum(ScatterSum(kept, index, won, dim), 1.0);
  return {kept * share, Tensor(), won * GatherAt(share, index, dim)};
}

/// Products of the others, where at most one factor of an element is zero.
Tensors ScatterProdVjp(const VjpCall& c) {
  const Attr& dim = c.attrs[0];
  const Tensor &self = c.in[0], &index = c.in[1], &source = c.in[2];
  Tensor self_zero = eq(self, 0), source_zero = eq(source, 0);
  Tensor zeros =
      ScatterSum(Casted(self_zero, self.dtype()), index, Casted(source_zero, self.dtype()), dim);
  Tensor others =
      Apply(kScatter, Location(),
            {where(self_zero, 1.0, self), index, where(source_zero, 1.0, source)}, {dim, "prod"});
  Tensor g = c.grad() * others;
  auto part = [&](const Tensor& x, const Tensor& is_zero, const Tensor& g, const Tensor& zeros) {
    Tensor plain = where(eq(zeros, 0), g / where(is_zero, 1.0, x), 0.0);
    return where(logical_and(is_zero, eq(zeros, 1)), g, plain);
  };
  return {part(self, self_zero, g, zeros), Tensor(),
          part(source, source_zero, GatherAt(g, index, dim), GatherAt(zeros, index, dim))};
}

Tensors ScatterVjp(const VjpCall& c) {
  const Attr& dim = c.attrs[0];
  const std::string& reduce = c.attrs[1].str();
  const Tensor& g = c.grad();
  if (reduce == "amax" || reduce == "amin") return ScatterExtremeVjp(c);
  if (reduce == "prod") return ScatterProdVjp(c);
  Tensor to_self = g;
  if (reduce == "none" && c.needs(0)) {
    to_self =
        Apply(kScatter, Location(), {g, c.in[1], ZerosLike(c.in[2].shape(), g)}, {dim, "none"});
  }
  return {to_self, Tensor(), c.needs(2) ? GatherAt(g, c.in[1], dim) : Tensor()};
}

/// Of ops that return values and where they came from.
template <int kDim>
Tensors ChosenVjp(const VjpCall& c) {
  return {ScatterSum(ZerosLike(c.in[0].shape(), c.grad()), c.out[1], c.grad(), c.attrs[kDim])};
}

}  // namespace

constinit const OpDef kGather = {
    .schema = "gather(Tensor self, int dim, Tensor index) -> Tensor",
    .doc = "Elements of `self` whose position along `dim` is given by `index`.",
    .call = Box<hammock::gather>,
    .infer = InferGather,
    .complex = EachPart,
    .vjp = GatherVjp,
    .can_fail = true,
    .bytes = OfSelected,
    .samples = {{"f32[3,4] i64[2,4]", "{dim=0}"}, {"f32[3,4] i64[3,2]", "{dim=1}"}},
};
constinit const OpDef kScatter = {
    .schema =
        "scatter(Tensor self, int dim, Tensor index, Tensor source, *, str reduce=\"none\") "
        "-> Tensor",
    .doc =
        "`self` with `source` written or combined at the positions along `dim` that `index` "
        "gives; the last write wins.",
    .call = Box<hammock::scatter>,
    .infer = InferScatter,
    .complex = EachPart,
    .vjp = ScatterVjp,
    .can_fail = true,
    .samples = {{"f32[3,4] i64[2,4] f32[2,4]", "{dim=0, reduce=\"none\"}"},
                {"f32[3,4] i64[3,2] f32[3,2]", "{dim=1, reduce=\"sum\"}"},
                {"f32[5] i64[3] f32[3]", "{dim=0, reduce=\"amax\"}"}},
};
constinit const OpDef kIndexSelect = {
    .schema = "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    .doc = "Slices of `self` along `dim` at the positions in the vector `index`.",
    .call = Box<hammock::index_select>,
    .infer = InferIndexSelect,
    .complex = EachPart,
    .vjp = IndexSelectVjp,
    .can_fail = true,
    .bytes = OfSelected,
    .samples = {{"f32[5,3] i64[4]", "{dim=0}"}, {"f32[2,3] i64[0]", "{dim=1}"}},
};
constinit const OpDef kNonzeroBounded = {
    .schema = "nonzero_bounded(Tensor self, SymInt size) -> Tensor",
    .doc = "Coordinates of the first `size` nonzero elements, -1 past their count.",
    .infer = InferNonzero,
    .complex = NonzeroParts,
    .samples = {{"bool[3,4]", "{size=12}"}, {"f32[5]", "{size=2}"}},
};
constinit const OpDef kSort = {
    .schema =
        "sort(Tensor self, int dim=-1, bool descending=False, bool stable=False) "
        "-> (Tensor, Tensor)",
    .doc = "Sorted values along `dim` and where they came from; NaN counts as the largest.",
    .call = Box<hammock::sort>,
    .infer = InferSort,
    .vjp = ChosenVjp<0>,
    .num_outputs = 2,
    .samples = {{"f32[3,4]", "{dim=1, descending=false, stable=true}"},
                {"i64[5]", "{dim=0, descending=true, stable=true}"}},
};
constinit const OpDef kTopK = {
    .schema =
        "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) "
        "-> (Tensor, Tensor)",
    .doc = "The k largest or smallest along `dim`, best first, and where they came from.",
    .call = Box<hammock::topk>,
    .infer = InferTopK,
    .vjp = ChosenVjp<1>,
    .num_outputs = 2,
    .samples = {{"f32[3,4]", "{k=2, dim=1, largest=true, sorted=true}"},
                {"f32[5]", "{k=3, dim=0, largest=false, sorted=true}"}},
};

}  // namespace hammock::ops
