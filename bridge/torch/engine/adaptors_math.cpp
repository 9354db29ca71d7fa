// Arithmetic, reductions, indexing and linear algebra where PyTorch's form differs.

#include <hammock/ir/function.h>
#include <hammock/ops.h>

#include "engine/adaptor.h"
#include "engine/scope.h"

namespace hammock_torch {

using hammock::Any;
using hammock::AnyList;
using hammock::CallOp;
using hammock::DType;
using hammock::Tensor;

namespace {

using Call = const AtenCall&;

/// PyTorch writes "add", "multiply"; records have the names of `scatter_reduce`.
Any ScatterReduce(Call c) {
  std::string reduce = c[4].ToStringRef();
  reduce = reduce == "add" ? "sum" : reduce == "multiply" ? "prod" : reduce;
  Tensor source;
  if (c[3].IsTensor()) {
    source = c.tensor(3);
  } else {
    source = hammock::full(c.tensor(2).sizes(), c.number(3), c.tensor(0).dtype(), CurrentDevice());
  }
  return hammock::scatter_reduce(c.tensor(0), c.integer(1), c.tensor(2), source, reduce);
}

/// Negative indices count from the end, as in `index`; a mask of the size of self takes all dims.
Any IndexPut(Call c) {
  AnyList args = {c[0], c[1], c[2], c.size() > 3 ? Any(c.flag(3)) : Any(false)};
  return CallOp("index_put", args);
}
Any IndexPutInPlace(Call c) {
  Tensor self = c.tensor(0);
  return hammock::copy_(self, IndexPut(c).ToTensor());
}

/// p-norms over all elements: `norm.Scalar(self, p)`.
Any NormScalar(Call c) { return CallOp("norm", {c[0], c[1]}); }

/// The whole-tensor forms of 2.x take no dims at all.
Any LinalgVectorNorm(Call c) {
  Any dtype = c.none(4) ? Any() : Any(c.dtype(4, DType::kF32));
  return CallOp("linalg_vector_norm", {c[0], c[1], c[2], c[3]}, {{"dtype", dtype}});
}

Any CumWithDType(const char* op, Call c) {
  Any dtype = c.none(2) ? Any() : Any(c.dtype(2, DType::kF32));
  return CallOp(op, {c[0], c[1]}, {{"dtype", dtype}});
}

/// Pads with positions: dims of the sizes that the graph gives.
Any RepeatInterleave(Call c) {
  if (c.size() > 1 && !c.none(1))
    return CallOp("repeat_interleave", {c[0]}, {{"output_size", c[1]}});
  return CallOp("repeat_interleave", {c[0]});
}

// PyTorch's `info` is 0: a matrix without an inverse or a factor is an error of Hammock's, raised
// where the result is read.
Any LinalgInvEx(Call c) {
  Tensor inverse = CallOp("linalg_inv", {c[0]}).ToTensor();
  std::vector<int64_t> batch = inverse.sizes().vec();
  batch.resize(batch.size() - 2);
  return TupleOf({inverse, hammock::zeros(batch, DType::kI32, CurrentDevice())});
}
Any LinalgCholeskyEx(Call c) {
  Tensor factor = CallOp("linalg_cholesky", {c[0]}, {{"upper", c[1]}}).ToTensor();
  std::vector<int64_t> batch = factor.sizes().vec();
  batch.resize(batch.size() - 2);
  return TupleOf({factor, hammock::zeros(batch, DType::kI32, CurrentDevice())});
}

// ---- Fourier transforms

/// Hammock's name of a scale of 1, 1 / sqrt(n) or 1 / n (0, 1, 2) in a direction.
std::string FftNormOf(int64_t scale, bool forward) {
  if (scale == 1) return "ortho";
  return (scale == 0) == forward ? "backward" : "forward";
}

/// input, dims, scale, whether only half of the last dim is wanted
Any FftR2C(Call c) {
  auto transform = c.flag(3) ? hammock::fft_rfftn : hammock::fft_fftn;
  return transform(c.tensor(0), std::nullopt, hammock::Dims(c.ints(1)),
                   FftNormOf(c.integer(2), true), hammock::Location::current());
}
/// input, dims, scale, forward
Any FftC2C(Call c) {
  auto transform = c.flag(3) ? hammock::fft_fftn : hammock::fft_ifftn;
  return transform(c.tensor(0), std::nullopt, hammock::Dims(c.ints(1)),
                   FftNormOf(c.integer(2), c.flag(3)), hammock::Location::current());
}
/// input, dims, scale, the size of the last of these dims
Any FftC2R(Call c) {
  hammock::Dims dims(c.ints(1)), sizes;
  for (int64_t dim : dims) sizes.push_back(c.tensor(0).size(dim));
  sizes[sizes.size() - 1] = c.integer(3);
  return hammock::fft_irfftn(c.tensor(0), sizes, dims, FftNormOf(c.integer(2), false));
}

/// addmm with an activation behind it.
Any AddmmActivation(Call c) {
  Tensor sum = CallOp("addmm", {c[0], c[1], c[2]}, {{"beta", c[3]}, {"alpha", c[4]}}).ToTensor();
  return c.flag(5) ? hammock::gelu(sum) : hammock::relu(sum);
}

Any Cat(Call c) {
  // PyTorch skips empty tensors of one dim.
  AnyList kept;
  for (const Tensor& tensor : c.tensors(0)) {
    if (tensor.dim() != 1 || tensor.numel() != 0) kept.push_back(tensor);
  }
  if (kept.empty()) return c.tensors(0)[0];
  return CallOp("cat", {Any(kept), c[1]});
}

/// A mask or an index of every dim, put together again by `index`.
Any UnsafeIndex(Call c) { return CallOp("index", {c[0], c[1]}); }

Any Unique2(Call c) { return CallOp("unique", {c[0], c.flag(1), true, true}); }

constexpr AdaptorEntry kTable[] = {
    {"scatter.reduce", ScatterReduce},
    {"scatter.value_reduce", ScatterReduce},
    {"index_put", IndexPut},
    {"_index_put_impl", IndexPut},
    {"_unsafe_index_put", IndexPut},
    {"index_put_", IndexPutInPlace},
    {"_index_put_impl_", IndexPutInPlace},
    {"_unsafe_index", UnsafeIndex},
    {"norm.Scalar", NormScalar},
    {"linalg_vector_norm", LinalgVectorNorm},
    {"cumsum", [](Call c) { return CumWithDType("cumsum", c); }},
    {"cumprod", [](Call c) { return CumWithDType("cumprod", c); }},
    {"repeat_interleave.Tensor", RepeatInterleave},
    {"linalg_inv_ex", LinalgInvEx},
    {"linalg_cholesky_ex", LinalgCholeskyEx},
    {"_fft_r2c", FftR2C},
    {"_fft_c2c", FftC2C},
    {"_fft_c2r", FftC2R},
    {"_addmm_activation", AddmmActivation},
    {"cat", Cat},
    {"_cat", Cat},
    {"_unique2", Unique2},
};

}  // namespace

std::span<const AdaptorEntry> MathAdaptors() { return kTable; }

}  // namespace hammock_torch
