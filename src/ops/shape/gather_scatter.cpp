// Gather, scatter and what is made of them along one dim; masks.

#include <fmt/format.h>

#include <limits>

#include "base/throw.h"
#include "hammock/metric.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"
#include "trace/hooks.h"
#include "trace/layout.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

// ---- Steps shared with indexing.cpp

Tensor ops::Rows(const Tensor& x, const Tensor& index, int dim) {
  return Apply(kIndexSelect, Location(), {x, index}, {dim});
}

Tensor ops::Scattered(const Tensor& x, const Tensor& index, const Tensor& source, int dim,
                      const char* reduce) {
  if (x.dtype() != DType::kBool || std::string(reduce) == "none") {
    return Apply(kScatter, Location(), {x, index, source}, {dim, reduce});
  }
  // Sums of truth values are disjunctions.
  Tensor wide = Apply(kScatter, Location(),
                      {Casted(x, DType::kI64), index, Casted(source, DType::kI64)}, {dim, reduce});
  return Casted(wide, DType::kBool);
}

Tensor ops::WrappedIndex(const Tensor& index, int64_t size) {
  Tensor i = Casted(index, DType::kI64);
  return where(lt(i, ConstantLike(0, i)), i + ConstantLike(size, i), i);
}

namespace {

constinit const metrics::DeclaredCounter kDataDependentShape({
    .name = "DataDependentShape",
    .doc = "Ops that read a count before their shape was known.",
});

constinit const metrics::DeclaredCounter kDataDependentShapeAt({
    .name = "DataDependentShape::<op> at <line>",
    .doc = "The same, by op and line.",
});

}  // namespace

int64_t ops::ReadCount(const char* op, const Tensor& count) {
  metrics::Get<kDataDependentShape>().Add();
  std::string where = LocationText(CurrentLocation());
  metrics::Get<kDataDependentShapeAt>(op + (where.empty() ? where : " at " + where)).Add();
  return ReadElements(count, fmt::format("the shape of {}", op).c_str()).at(0).ToInt();
}

void ops::CheckMask(const char* op, const Tensor& mask) {
  if (mask.dtype() == DType::kBool || mask.dtype() == DType::kU8) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: mask must be bool, got {}", op,
                   mask.shape().to_string());
}

Tensor ops::NonzeroFor(const char* op, const Tensor& self) {
  Tensor truth = Casted(self, DType::kBool);
  int64_t count = self.numel() == 0 ? 0 : ReadCount(op, count_nonzero(truth));
  return Apply(kNonzeroBounded, Location(), {truth}, {count});
}

namespace {

extern const OpDef kScatterAdd;

void CheckIndexDType(const char* op, const Tensor& index, bool allow_i32 = false) {
  if (index.dtype() == DType::kI64 || (allow_i32 && index.dtype() == DType::kI32)) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: index must be i64{}, got {}", op,
                   allow_i32 ? " or i32" : "", index.shape().to_string());
}

void CheckSameDType(const char* op, const Tensor& self, const Tensor& source) {
  if (self.dtype() == source.dtype()) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: self and source need one dtype, got {} and {}",
                   op, self.shape().to_string(), source.shape().to_string());
}

/// An index with the rank of `self` (a 0-d tensor counts as 1-d).
void CheckIndexRank(const char* op, const Tensor& self, const Tensor& index) {
  if (std::max(self.dim(), 1) == std::max(index.dim(), 1) || index.numel() == 0) return;
  Throw(ErrorCode::kShapeMismatch, "{}: index {} must have as many dims as self {}", op,
        index.shape().to_string(), self.shape().to_string());
}

/// Every size of `index` must fit into that of `other`, except along `dim`.
void CheckIndexSizes(const char* op, const char* what, const Tensor& other, const Tensor& index,
                     int dim) {
  for (int i = 0; i < index.dim() && i < other.dim(); ++i) {
    if (i == dim || index.size(i) <= other.size(i)) continue;
    Throw(ErrorCode::kShapeMismatch, "{}: size {} of index in dim {} exceeds that of {} {}", op,
          index.size(i), i, what, other.shape().to_string());
  }
}

/// 0-d tensors as 1-d ones; others as they are.
Tensor AtLeastVector(const Tensor& x) { return x.dim() == 0 ? Reshaped(x, {1}) : x; }

Tensor ScatterChecked(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor& source, const char* reduce) {
  int d = WrapDim(op, dim, self.dim());
  CheckIndexDType(op, index);
  CheckSameDType(op, self, source);
  if (index.numel() == 0) return clone(self);
  CheckIndexRank(op, self, index);
  CheckIndexRank(op, source, index);
  CheckIndexSizes(op, "self", self, index, d);
  CheckIndexSizes(op, "source", source, index, -1);
  Tensor result =
      Scattered(AtLeastVector(self), AtLeastVector(index), AtLeastVector(source), d, reduce);
  return Reshaped(result, self.sizes());
}

const char* ReduceName(const char* op, const std::string& reduce) {
  if (reduce == "none") return "none";
  if (reduce == "add") return "sum";
  if (reduce == "multiply") return "prod";
  Throw(ErrorCode::kValue, "{}: reduce must be add or multiply, got '{}'", op, reduce);
}

struct Reduction {
  const char* primitive;
  Scalar identity;
};

Reduction ReductionOf(const char* op, const std::string& reduce, DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  double infinity = std::numeric_limits<double>::infinity();
  if (reduce == "sum" || reduce == "mean") return {"sum", int64_t{0}};
  if (reduce == "prod") return {"prod", int64_t{1}};
  bool integer = !IsFloat(dtype);
  if (reduce == "amax") {
    if (!integer) return {"amax", -infinity};
    return {"amax", dtype == DType::kI64 ? Scalar(std::numeric_limits<int64_t>::min())
                                         : Scalar(static_cast<int64_t>(info.lowest))};
  }
  if (reduce == "amin") {
    if (!integer) return {"amin", infinity};
    return {"amin", dtype == DType::kI64 ? Scalar(std::numeric_limits<int64_t>::max())
                                         : Scalar(static_cast<int64_t>(info.highest))};
  }
  Throw(ErrorCode::kValue, "{}: reduce must be sum, prod, mean, amax or amin, got '{}'", op,
        reduce);
}

/// scatter_reduce of vectors or more with checked arguments.
Tensor ReduceInto(const char* op, const Tensor& self, const Tensor& index, const Tensor& source,
                  int dim, const std::string& reduce, bool include_self) {
  // Sums of many f16 or bf16 terms are rounded once.
  DType wide = WideFloat(self.dtype());
  Tensor start = Casted(self, wide), terms = Casted(source, wide);
  auto [primitive, identity] = ReductionOf(op, reduce, self.dtype());
  if (!include_self) {
    Tensor blank = Stretched(ConstantLike(identity, start), index.sizes(), start);
    start = Scattered(start, index, blank, dim, "none");
  }
  Tensor result = Scattered(start, index, terms, dim, primitive);
  if (reduce == "mean") {
    Tensor ones = Stretched(ConstantLike(1, start), index.sizes(), start);
    Tensor base = Filled(self.sizes(), int64_t{include_self ? 1 : 0}, wide, self);
    Tensor count = Scattered(base, index, ones, dim, "sum");
    count = maximum(count, ConstantLike(1, count));
    result = IsFloat(wide) ? result / count : floor_divide(result, count);
  }
  return Casted(result, self.dtype());
}

/// `index` (a vector) repeated to the sizes of `source` along `dim`.
Tensor SpreadIndex(const Tensor& index, const Dims& sizes, int dim) {
  Dims vector = Dims::Filled(sizes.size(), 1);
  vector[dim] = index.numel();
  return Broadcasted(Reshaped(Casted(index, DType::kI64), vector), sizes);
}

struct IndexCall {
  int dim;
  Tensor self, index, source;  // at least vectors, `index` of the sizes of `source`
};

/// Checks index_add and its kin: index is a vector, source has its length along dim.
IndexCall CheckIndexCall(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                         const Tensor& source) {
  int d = WrapDim(op, dim, self.dim());
  CheckIndexDType(op, index, true);
  if (index.dim() > 1) {
    Throw(ErrorCode::kShapeMismatch, "{}: index must be a vector, got {}", op,
          index.shape().to_string());
  }
  CheckSameDType(op, self, source);
  Tensor x = AtLeastVector(self), y = AtLeastVector(source);
  bool fits = y.dim() == x.dim() && y.size(d) == index.numel();
  for (int i = 0; fits && i < x.dim(); ++i) fits = i == d || x.size(i) == y.size(i);
  if (!fits) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: source {} must have the sizes of self {} with {} elements along dim {}", op,
          source.shape().to_string(), self.shape().to_string(), index.numel(), d);
  }
  return {d, x, SpreadIndex(index, y.sizes(), d), y};
}

Tensor IndexScatter(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                    const Tensor& source, const char* reduce) {
  IndexCall c = CheckIndexCall(op, self, dim, index, source);
  if (index.numel() == 0) return clone(self);
  return Reshaped(Scattered(c.self, c.index, c.source, c.dim, reduce), self.sizes());
}

/// A fill value as a 0-d tensor of self's dtype.
Tensor FillValue(const char* op, const Tensor& self, const TensorArg& value) {
  if (!value.is_tensor()) return Lift(value.scalar(), self.dtype());
  if (value.tensor().dim() != 0) {
    Throw(ErrorCode::kShapeMismatch, "{}: value must be a number or a 0-d tensor, got {}", op,
          value.tensor().shape().to_string());
  }
  return Casted(value.tensor(), self.dtype());
}

}  // namespace

// ---- Along one dim

Tensor gather(const Tensor& self, int64_t dim, const Tensor& index, Location at) {
  LocationScope scope(at);
  int d = WrapDim("gather", dim, self.dim());
  if (index.numel() > 0) CheckIndexDType("gather", index);
  CheckIndexRank("gather", self, index);
  if (index.numel() == 0) return Filled(index.sizes(), int64_t{0}, self.dtype(), self);
  CheckIndexSizes("gather", "self", self, index, d);
  Tensor result = Apply(kGather, at, {AtLeastVector(self), AtLeastVector(index)}, {d});
  return Reshaped(result, index.sizes());
}

Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const TensorArg& source,
               const std::string& reduce, Location at) {
  LocationScope scope(at);
  const char* name = ReduceName("scatter", reduce);
  if (source.is_tensor() && source.tensor().dim() > 0) {
    return ScatterChecked("scatter", self, dim, index, source.tensor(), name);
  }
  Tensor value = FillValue("scatter", self, source);
  return ScatterChecked("scatter", self, dim, index, Stretched(value, index.sizes(), self), name);
}

Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                   Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kScatterAdd, at, self, source); cast) {
    return scatter_add(cast(self), dim, index, cast(source), at);
  }
  return ScatterChecked("scatter_add", self, dim, index, source, "sum");
}

Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      const std::string& reduce, bool include_self, Location at) {
  LocationScope scope(at);
  const char* op = "scatter_reduce";
  int d = WrapDim(op, dim, self.dim());
  CheckIndexDType(op, index);
  CheckSameDType(op, self, source);
  ReductionOf(op, reduce, self.dtype());
  if (index.numel() == 0) return clone(self);
  CheckIndexRank(op, self, index);
  CheckIndexRank(op, source, index);
  CheckIndexSizes(op, "self", self, index, d);
  CheckIndexSizes(op, "source", source, index, -1);
  Tensor result = ReduceInto(op, AtLeastVector(self), AtLeastVector(index), AtLeastVector(source),
                             d, reduce, include_self);
  return Reshaped(result, self.sizes());
}

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index, Location at) {
  LocationScope scope(at);
  int d = WrapDim("index_select", dim, self.dim());
  CheckIndexDType("index_select", index, true);
  if (index.dim() > 1) {
    Throw(ErrorCode::kShapeMismatch, "index_select: index must be a vector, got {}",
          index.shape().to_string());
  }
  Tensor picked = Rows(AtLeastVector(self), AtLeastVector(index), d);
  return self.dim() == 0 ? Reshaped(picked, {}) : picked;
}

Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                 const Scalar& alpha, Location at) {
  LocationScope scope(at);
  CheckSameDType("index_add", self, source);
  bool scales = alpha.ToDouble() != 1;
  return IndexScatter("index_add", self, dim, index,
                      scales ? source * Lift(alpha, source.dtype()) : source, "sum");
}

Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                  Location at) {
  LocationScope scope(at);
  return IndexScatter("index_copy", self, dim, index, source, "none");
}

Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const TensorArg& value,
                  Location at) {
  LocationScope scope(at);
  int d = WrapDim("index_fill", dim, self.dim());
  CheckIndexDType("index_fill", index);
  Dims sizes = AtLeastVector(self).sizes();
  sizes[d] = index.numel();
  Tensor source = Stretched(FillValue("index_fill", self, value), sizes, self);
  return IndexScatter("index_fill", self, dim, WrappedIndex(index, self.dim() ? self.size(d) : 1),
                      source, "none");
}

Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    const std::string& reduce, bool include_self, Location at) {
  LocationScope scope(at);
  if (reduce == "sum") {
    Throw(ErrorCode::kValue, "index_reduce: reduce must be prod, mean, amax or amin, got 'sum'");
  }
  ReductionOf("index_reduce", reduce, self.dtype());
  IndexCall c = CheckIndexCall("index_reduce", self, dim, index, source);
  if (index.numel() == 0) return clone(self);
  return Reshaped(
      ReduceInto("index_reduce", c.self, c.index, c.source, c.dim, reduce, include_self),
      self.sizes());
}

Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim,
                      Location at) {
  LocationScope scope(at);
  CheckIndexDType("take_along_dim", indices);
  if (!dim) return gather(flatten(self), 0, flatten(indices), at);
  int d = WrapDim("take_along_dim", *dim, self.dim());
  if (self.dim() != indices.dim()) {
    Throw(ErrorCode::kShapeMismatch, "take_along_dim: self {} and indices {} need as many dims",
          self.shape().to_string(), indices.shape().to_string());
  }
  if (self.dim() == 0) return gather(self, 0, indices, at);
  // All dims but `dim` broadcast against each other.
  Dims self_sizes = self.sizes(), index_sizes = indices.sizes();
  self_sizes[d] = index_sizes[d] = 1;
  Dims common = BroadcastSizes("take_along_dim", self_sizes, index_sizes);
  Dims wide_self = common, wide_index = common;
  wide_self[d] = self.size(d);
  wide_index[d] = indices.size(d);
  return gather(Broadcasted(self, wide_self), d, Broadcasted(indices, wide_index), at);
}

namespace {

/// The same rows; those of one index pass no gradient on.
Tensor WithoutGradientOf(int64_t padding_idx, const Tensor& index, const Tensor& weight,
                         const Tensor& rows) {
  int64_t count = weight.size(0);
  if (padding_idx < -count || padding_idx >= count) {
    Throw(ErrorCode::kIndexOutOfRange, "embedding: padding_idx {} must be one of {} rows",
          padding_idx, count);
  }
  if (!rows.requires_grad()) return rows;
  Tensor padding = eq(index, padding_idx < 0 ? padding_idx + count : padding_idx);
  return where(Reshaped(padding, {index.size(0), 1}), detach(rows), rows);
}

}  // namespace

Tensor embedding(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding_idx,
                 Location at) {
  LocationScope scope(at);
  CheckIndexDType("embedding", input, true);
  if (weight.dim() != 2) {
    Throw(ErrorCode::kShapeMismatch, "embedding: weight must be a matrix, got {}",
          weight.shape().to_string());
  }
  Tensor index = Reshaped(input, {input.numel()});
  Tensor rows = Rows(weight, index, 0);
  if (padding_idx) rows = WithoutGradientOf(*padding_idx, index, weight, rows);
  Dims sizes = input.sizes();
  sizes.push_back(weight.size(1));
  return Reshaped(rows, sizes);
}

// ---- Masks

Tensor masked_fill(const Tensor& self, const Tensor& mask, const TensorArg& value, Location at) {
  LocationScope scope(at);
  CheckMask("masked_fill", mask);
  return RowMajor(where(Casted(mask, DType::kBool), FillValue("masked_fill", self, value), self));
}

Tensor masked_select(const Tensor& self, const Tensor& mask, Location at) {
  LocationScope scope(at);
  CheckMask("masked_select", mask);
  Dims sizes = BroadcastSizes("masked_select", self.sizes(), mask.sizes());
  Tensor flat_mask = flatten(Broadcasted(Casted(mask, DType::kBool), sizes));
  Tensor picked = NonzeroFor("masked_select", flat_mask);
  return Rows(flatten(Broadcasted(self, sizes)), Reshaped(picked, {picked.size(0)}), 0);
}

Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source, Location at) {
  LocationScope scope(at);
  CheckMask("masked_scatter", mask);
  CheckSameDType("masked_scatter", self, source);
  Dims sizes = BroadcastSizes("masked_scatter", self.sizes(), mask.sizes());
  Tensor x = Broadcasted(self, sizes);
  if (x.numel() == 0) return clone(x);
  Tensor chosen = flatten(Broadcasted(Casted(mask, DType::kBool), sizes));
  // The n-th true element takes the n-th element of `source`; too few are an index error.
  Tensor position = cumsum(chosen, 0, std::nullopt, at);
  Tensor values = flatten(source);
  Tensor padded = Padded(values, 0, 1, 0, int64_t{0});
  Tensor taken = Rows(padded, where(chosen, position, ConstantLike(0, position)), 0);
  return where(Reshaped(chosen, sizes), Reshaped(taken, sizes), x);
}

Tensor nonzero(const Tensor& self, Location at) {
  LocationScope scope(at);
  return NonzeroFor("nonzero", self);
}

Tensor argwhere(const Tensor& self, Location at) {
  LocationScope scope(at);
  return NonzeroFor("argwhere", self);
}

// ---- In place

#define HAMMOCK_IN_PLACE(name, params, args)         \
  Tensor& name##_ params {                           \
    LocationScope scope(at);                         \
    return WriteInPlace(#name "_", self, name args); \
  }
HAMMOCK_IN_PLACE(scatter,
                 (Tensor & self, int64_t dim, const Tensor& index, const TensorArg& source,
                  const std::string& reduce, Location at),
                 (self, dim, index, source, reduce, at))
HAMMOCK_IN_PLACE(scatter_add,
                 (Tensor & self, int64_t dim, const Tensor& index, const Tensor& source,
                  Location at),
                 (self, dim, index, source, at))
HAMMOCK_IN_PLACE(scatter_reduce,
                 (Tensor & self, int64_t dim, const Tensor& index, const Tensor& source,
                  const std::string& reduce, bool include_self, Location at),
                 (self, dim, index, source, reduce, include_self, at))
HAMMOCK_IN_PLACE(index_add,
                 (Tensor & self, int64_t dim, const Tensor& index, const Tensor& source,
                  const Scalar& alpha, Location at),
                 (self, dim, index, source, alpha, at))
HAMMOCK_IN_PLACE(index_copy,
                 (Tensor & self, int64_t dim, const Tensor& index, const Tensor& source,
                  Location at),
                 (self, dim, index, source, at))
HAMMOCK_IN_PLACE(index_fill,
                 (Tensor & self, int64_t dim, const Tensor& index, const TensorArg& value,
                  Location at),
                 (self, dim, index, value, at))
HAMMOCK_IN_PLACE(index_reduce,
                 (Tensor & self, int64_t dim, const Tensor& index, const Tensor& source,
                  const std::string& reduce, bool include_self, Location at),
                 (self, dim, index, source, reduce, include_self, at))
HAMMOCK_IN_PLACE(masked_fill,
                 (Tensor & self, const Tensor& mask, const TensorArg& value, Location at),
                 (self, mask, value, at))
HAMMOCK_IN_PLACE(masked_scatter,
                 (Tensor & self, const Tensor& mask, const Tensor& source, Location at),
                 (self, mask, source, at))
#undef HAMMOCK_IN_PLACE

// ---- Records

namespace {

/// torch.nonzero(x, as_tuple=True) gives one vector of coordinates a dim.
Any CallNonzero(std::span<const Any> args) {
  const Tensor& self = args[0].ToTensor();
  if (!args[1].ToBool()) return Any(nonzero(self));
  Tensor coordinates = nonzero(self.dim() == 0 ? Reshaped(self, {1}) : self);
  AnyList vectors;
  for (int64_t i = 0; i < coordinates.size(1); ++i) vectors.push_back(select(coordinates, 1, i));
  return Any::Tuple(vectors);
}

HAMMOCK_FUNCTION(kScatterSrc,
                 "scatter.src(Tensor self, int dim, Tensor index, Tensor src, *, str "
                 "reduce=\"none\") -> Tensor",
                 "`self` with `src` written at the positions that `index` gives.", scatter)
HAMMOCK_FUNCTION(kScatterValue,
                 "scatter.value(Tensor self, int dim, Tensor index, Scalar value, *, str "
                 "reduce=\"none\") -> Tensor",
                 "`self` with `value` written at the positions that `index` gives.", scatter)
HAMMOCK_FUNCTION(kScatterAdd,
                 "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
                 "`self` with `src` added at the positions that `index` gives.", scatter_add,
                 AutocastRule::kWidest)
HAMMOCK_FUNCTION(kScatterReduce,
                 "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, "
                 "bool include_self=True) -> Tensor",
                 "`self` combined with `src` at the positions that `index` gives.", scatter_reduce)
HAMMOCK_FUNCTION(kIndexAdd,
                 "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) "
                 "-> Tensor",
                 "`self` with alpha * source added to the slices that `index` names.", index_add)
HAMMOCK_FUNCTION(kIndexCopy,
                 "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
                 "`self` with the slices that `index` names replaced by `source`.", index_copy)
HAMMOCK_FUNCTION(kIndexFill,
                 "index_fill(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
                 "`self` with the slices that `index` names filled.", index_fill)
HAMMOCK_FUNCTION(kIndexReduce,
                 "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, "
                 "bool include_self=True) -> Tensor",
                 "`self` combined with `source` in the slices that `index` names.", index_reduce)
HAMMOCK_FUNCTION(kTakeAlongDim,
                 "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
                 "As gather, with sizes that broadcast.", take_along_dim)
HAMMOCK_FUNCTION(kEmbedding,
                 "embedding(Tensor input, Tensor weight, int? padding_idx=None) -> Tensor",
                 "Rows of a table.", embedding)
HAMMOCK_FUNCTION(kMaskedFill, "masked_fill(Tensor self, Tensor mask, Tensor value) -> Tensor",
                 "`self` with a value where the mask is true.", masked_fill)
HAMMOCK_FUNCTION(kMaskedSelect, "masked_select(Tensor self, Tensor mask) -> Tensor",
                 "The elements where the mask is true, as a vector; reads their count.",
                 masked_select)
HAMMOCK_FUNCTION(kMaskedScatter,
                 "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
                 "`self` with the elements of `source`, in order, where the mask is true.",
                 masked_scatter)
HAMMOCK_FUNCTION(kArgwhere, "argwhere(Tensor self) -> Tensor",
                 "Coordinates of the elements that are not zero; reads their count.", argwhere)
constinit const OpDef kNonzero = {
    .schema = "nonzero(Tensor self, *, bool as_tuple=False) -> Any",
    .doc = "Coordinates of the elements that are not zero; reads their count.",
    .call = CallNonzero,
};

HAMMOCK_FUNCTION(kScatterSrcI,
                 "scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str "
                 "reduce=\"none\") -> Tensor(a!)",
                 "scatter in place.", scatter_)
HAMMOCK_FUNCTION(kScatterValueI,
                 "scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str "
                 "reduce=\"none\") -> Tensor(a!)",
                 "scatter in place.", scatter_)
HAMMOCK_FUNCTION(kScatterAddI,
                 "scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)",
                 "scatter_add in place.", scatter_add_)
HAMMOCK_FUNCTION(kScatterReduceI,
                 "scatter_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, "
                 "*, bool include_self=True) -> Tensor(a!)",
                 "scatter_reduce in place.", scatter_reduce_)
HAMMOCK_FUNCTION(kIndexAddI,
                 "index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar "
                 "alpha=1) -> Tensor(a!)",
                 "index_add in place.", index_add_)
HAMMOCK_FUNCTION(kIndexCopyI,
                 "index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> Tensor(a!)",
                 "index_copy in place.", index_copy_)
HAMMOCK_FUNCTION(kIndexFillI,
                 "index_fill_(Tensor(a!) self, int dim, Tensor index, Tensor value) -> Tensor(a!)",
                 "index_fill in place.", index_fill_)
HAMMOCK_FUNCTION(kIndexReduceI,
                 "index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, "
                 "*, bool include_self=True) -> Tensor(a!)",
                 "index_reduce in place.", index_reduce_)
HAMMOCK_FUNCTION(kMaskedFillI,
                 "masked_fill_(Tensor(a!) self, Tensor mask, Tensor value) -> Tensor(a!)",
                 "masked_fill in place.", masked_fill_)
HAMMOCK_FUNCTION(kMaskedScatterI,
                 "masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source) -> Tensor(a!)",
                 "masked_scatter in place.", masked_scatter_)

}  // namespace

std::span<const OpDef* const> ops::SelectOps() {
  static constexpr const OpDef* kOps[] = {
      &kScatterSrc,  &kScatterValue,  &kScatterAdd,    &kScatterReduce,  &kIndexAdd,
      &kIndexCopy,   &kIndexFill,     &kIndexReduce,   &kTakeAlongDim,   &kEmbedding,
      &kMaskedFill,  &kMaskedSelect,  &kMaskedScatter, &kArgwhere,       &kNonzero,
      &kScatterSrcI, &kScatterValueI, &kScatterAddI,   &kScatterReduceI, &kIndexAddI,
      &kIndexCopyI,  &kIndexFillI,    &kIndexReduceI,  &kMaskedFillI,    &kMaskedScatterI,
  };
  return kOps;
}

}  // namespace hammock
