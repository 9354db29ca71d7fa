#include "ops/kit/compose.h"

#include "base/throw.h"
#include "hammock/ops/view.h"
#include "ir/primitives.h"
#include "trace/apply.h"

namespace hammock::ops {

namespace {
// Every caller has opened a LocationScope, which wins over this.
Location Here() { return Location(); }
}  // namespace

Tensor Reshaped(const Tensor& x, const Dims& sizes) {
  if (x.shape().sizes() == sizes) return x;
  return Apply(kReshape, Here(), {x}, {sizes});
}

Tensor Permuted(const Tensor& x, const Dims& dims) {
  bool same = true;
  for (int i = 0; i < dims.size(); ++i) same = same && dims[i] == i;
  if (same) return x;
  return Apply(kPermute, Here(), {x}, {dims});
}

Tensor Broadcasted(const Tensor& x, const Dims& sizes) {
  if (x.shape().sizes() == sizes) return x;
  return Apply(kBroadcast, Here(), {x}, {sizes});
}

Tensor Casted(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return ApplyCast(Here(), x, dtype);
}

Tensor Sliced(const Tensor& x, int dim, int64_t start, int64_t size, int64_t step) {
  if (start == 0 && size == x.shape().size(dim) && step == 1) return x;
  return Apply(kSlice, Here(), {x}, {dim, start, size, step});
}

Tensor Concatenated(std::span<const Tensor> tensors, int dim) {
  if (tensors.size() == 1) return tensors[0];
  const Attr attrs[] = {dim};
  return Apply(kConcat, Here(), tensors, attrs);
}

Tensor Flipped(const Tensor& x, int dim) { return Apply(kFlip, Here(), {x}, {Dims{dim}}); }

Tensor Padded(const Tensor& x, int dim, int64_t low, int64_t high, const Scalar& value) {
  if (low == 0 && high == 0) return x;
  Dims lows = Dims::Filled(x.dim(), 0), highs = lows;
  lows[dim] = low;
  highs[dim] = high;
  return Apply(kPad, Here(), {x, ConstantLike(value, x)}, {lows, highs});
}

Tensor Counting(int64_t size, const Tensor& like) {
  return ApplyOn(kIota, Here(), like.device(), {size, DType::kI64});
}

Tensor CountingAlong(int dim, int rank, int64_t size, const Tensor& like) {
  Dims sizes = Dims::Filled(rank, 1);
  sizes[dim] = size;
  return Reshaped(Counting(size, like), sizes);
}

Tensor ConstantLike(const Scalar& value, const Tensor& x) { return Constant(value, x.dtype()); }

Tensor Placed(const Tensor& scalar, const Tensor& like) {
  // A number has no device of its own and would go to the default one.
  bool lost =
      scalar.value().node->device() == kNoDevice && like.value().node->device() != kNoDevice;
  if (!lost || like.device() == Device()) return scalar;
  Tensor zero = Reshaped(Counting(1, like), {});
  return Apply(kWhere, Here(), {Casted(zero, DType::kBool), scalar, scalar});
}

Tensor Stretched(const Tensor& scalar, const Dims& sizes, const Tensor& like) {
  return Apply(kBroadcast, Here(), {Placed(scalar, like)}, {sizes});
}

Tensor Filled(const Dims& sizes, const Scalar& value, DType dtype, const Tensor& like) {
  return Stretched(Constant(value, dtype), sizes, like);
}

Tensor ZerosLike(const Shape& type, const Tensor& like) {
  return Filled(type.sizes(), 0, type.dtype(), like);
}

Tensor SummedTo(const Tensor& x, const Dims& sizes) {
  if (x.shape().sizes() == sizes) return x;
  Dims dims;
  int extra = x.dim() - sizes.size();
  for (int d = 0; d < x.dim(); ++d) {
    if (d < extra || (sizes[d - extra] == 1 && x.shape().size(d) != 1)) dims.push_back(d);
  }
  Tensor result = dims.empty() ? x : Apply(kReduceSum, Here(), {x}, {dims, true});
  return Reshaped(result, sizes);
}

Tensor AddedAlong(const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  Dims along = Dims::Filled(source.dim(), 1);
  along[dim] = index.numel();
  Tensor positions = Broadcasted(Reshaped(index, along), source.sizes());
  return Apply(kScatter, Here(), {x, positions, source}, {dim, "sum"});
}

Tensor Moved(const Tensor& x, int from, int to) {
  if (from == to) return x;
  Dims dims;
  for (int i = 0; i < x.dim(); ++i) {
    if (i != from) dims.push_back(i);
  }
  dims.insert(to, from);
  return Permuted(x, dims);
}

bool Contains(const Dims& dims, int64_t dim) {
  for (int64_t d : dims) {
    if (d == dim) return true;
  }
  return false;
}

Dims ReducedSizes(const Dims& sizes, const Dims& dims, bool keepdim) {
  Dims result;
  for (int i = 0; i < sizes.size(); ++i) {
    if (!Contains(dims, i)) {
      result.push_back(sizes[i]);
    } else if (keepdim) {
      result.push_back(1);
    }
  }
  return result;
}

int64_t CountOf(const Dims& sizes, const Dims& dims) {
  int64_t count = 1;
  if (sizes.empty()) return count;  // the dim 0 of a 0-d tensor
  for (int64_t d : dims) count *= sizes[static_cast<int>(d)];
  return count;
}

Dims OneDim(int dim, int rank) { return rank == 0 ? Dims() : Dims{dim}; }

DType WideFloat(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype;
}

DType FloatOf(DType dtype) { return IsFloatOrComplex(dtype) ? dtype : kDefaultFloat; }

void NeedFloat(const char* op, const Tensor& x) {
  if (IsFloatOrComplex(x.dtype())) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch,
                   "{}: needs a floating dtype, got {}; pass dtype=f32 or cast it first", op,
                   x.shape().to_string());
}

void NeedRank(const char* op, const Tensor& x, int rank) {
  if (x.dim() >= rank) return;
  Throw(ErrorCode::kShapeMismatch, "{}: needs at least {} dims, got {}", op, rank,
        x.shape().to_string());
}

}  // namespace hammock::ops
