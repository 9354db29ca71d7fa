#include <algorithm>
#include <limits>

#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

struct Reduced {
  Tensor x;
  Dims dims;
  bool keep;
  bool nothing;  // no axes were given, and that means none
};

Reduced Prepare(Call& c) {
  Tensor x = c[0];
  Dims dims = AxesOf(c, "axes", 1, x.dim());
  bool nothing = dims.empty() && c.Int("noop_with_empty_axes", 0);
  if (dims.empty() && !nothing) {
    for (int i = 0; i < x.dim(); ++i) dims.push_back(i);
  }
  return {x, dims, c.Int("keepdims", 1) != 0, nothing || x.dim() == 0};
}

Tensor Sum(const Tensor& x, const Reduced& r) {
  return r.nothing ? x : sum(x, r.dims, r.keep, x.dtype());
}

/// The least or largest of nothing is the identity of the reduction.
template <bool Max>
Values Extreme(Call& c) {
  Reduced r = Prepare(c);
  if (r.nothing) return {r.x};
  bool truth = r.x.dtype() == DType::kBool;
  if (r.x.numel() == 0) {
    Dims sizes;
    for (int i = 0; i < r.x.dim(); ++i) {
      bool gone = std::ranges::find(r.dims, int64_t{i}) != r.dims.end();
      if (!gone) sizes.push_back(r.x.size(i));
      if (gone && r.keep) sizes.push_back(1);
    }
    double infinite = std::numeric_limits<double>::infinity();
    const DTypeInfo& info = InfoOf(r.x.dtype());
    Scalar value = IsFloat(r.x.dtype()) ? Scalar(Max ? -infinite : infinite)
                   : truth              ? Scalar(!Max)
                                        : Scalar(Max ? info.lowest : info.highest);
    return {full(sizes, value.To(r.x.dtype()), r.x.dtype(), c.device())};
  }
  if (truth) return {Max ? any(r.x, r.dims, r.keep) : all(r.x, r.dims, r.keep)};
  return {Max ? amax(r.x, r.dims, r.keep) : amin(r.x, r.dims, r.keep)};
}

Values ReduceSum(Call& c) {
  Reduced r = Prepare(c);
  return {Sum(r.x, r)};
}

Values ReduceMean(Call& c) {
  Reduced r = Prepare(c);
  if (r.nothing) return {r.x};
  if (IsFloat(r.x.dtype())) return {mean(r.x, r.dims, r.keep)};
  return {mean(r.x.to(DType::kF64), r.dims, r.keep).to(r.x.dtype())};
}

Values ReduceProd(Call& c) {
  Reduced r = Prepare(c);
  return {r.nothing ? r.x : prod(r.x, r.dims, r.keep, r.x.dtype())};
}

Values ReduceL1(Call& c) {
  Reduced r = Prepare(c);
  return {Sum(abs(r.x), r)};
}

Values ReduceL2(Call& c) {
  Reduced r = Prepare(c);
  Tensor squares = Sum(r.x * r.x, r);
  if (IsFloat(r.x.dtype())) return {sqrt(squares)};
  return {sqrt(squares.to(DType::kF64)).to(r.x.dtype())};
}

Values ReduceSumSquare(Call& c) {
  Reduced r = Prepare(c);
  return {Sum(r.x * r.x, r)};
}

Values ReduceLogSum(Call& c) {
  Reduced r = Prepare(c);
  return {log(Sum(r.x, r))};
}

Values ReduceLogSumExp(Call& c) {
  Reduced r = Prepare(c);
  if (r.nothing) return {r.x};
  Tensor x = IsFloat(r.x.dtype()) ? r.x : r.x.to(DType::kF64);
  if (x.numel() == 0) return {log(Sum(exp(x), r)).to(r.x.dtype())};
  return {logsumexp(x, r.dims, r.keep).to(r.x.dtype())};
}

template <bool Max>
Values Arg(Call& c) {
  Tensor x = c[0];
  int64_t axis = Wrapped(c, c.Int("axis", 0), x.dim());
  bool keep = c.Int("keepdims", 1), last = c.Int("select_last_index", 0);
  Tensor seen = last ? flip(x, {axis}) : x;
  Tensor index = Max ? argmax(seen, axis, keep) : argmin(seen, axis, keep);
  return {last ? x.size(axis) - 1 - index : index};
}

template <bool Products>
Values Cumulative(Call& c) {
  Tensor x = c[0];
  int64_t axis = Wrapped(c, c.Number(1).ToInt(), x.dim());
  bool exclusive = c.Int("exclusive", 0), reverse = c.Int("reverse", 0);
  if (reverse) x = flip(x, {axis});
  if (exclusive) {
    Dims sizes = x.sizes();
    sizes[static_cast<int>(axis)] = 1;
    Tensor first = full(sizes, Scalar(Products ? 1 : 0), x.dtype(), c.device());
    x = cat({first, narrow(x, axis, 0, x.size(axis) - 1)}, axis);
  }
  Tensor result = Products ? cumprod(x, axis, x.dtype()) : cumsum(x, axis, x.dtype());
  return {reverse ? flip(result, {axis}) : result};
}

constexpr Operator kRows[] = {
    {"ArgMax", 1, kNewestOpset, Arg<true>},
    {"ArgMin", 1, kNewestOpset, Arg<false>},
    {"CumProd", 26, kNewestOpset, Cumulative<true>},
    {"CumSum", 11, kNewestOpset, Cumulative<false>},
    {"ReduceL1", 1, kNewestOpset, ReduceL1},
    {"ReduceL2", 1, kNewestOpset, ReduceL2},
    {"ReduceLogSum", 1, kNewestOpset, ReduceLogSum},
    {"ReduceLogSumExp", 1, kNewestOpset, ReduceLogSumExp},
    {"ReduceMax", 1, kNewestOpset, Extreme<true>},
    {"ReduceMean", 1, kNewestOpset, ReduceMean},
    {"ReduceMin", 1, kNewestOpset, Extreme<false>},
    {"ReduceProd", 1, kNewestOpset, ReduceProd},
    {"ReduceSum", 1, kNewestOpset, ReduceSum},
    {"ReduceSumSquare", 1, kNewestOpset, ReduceSumSquare},
};

}  // namespace

std::span<const Operator> ReduceOperators() { return kRows; }

}  // namespace hammock::onnx
