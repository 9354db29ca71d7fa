#pragma once
/// Access to elements: wide loads and stores, and copies by strides. Every kernel is made of these.
///
/// A dtype is computed in its wide type: double for floats, uint64_t for u64, int64_t for all
/// other integers and bool.

#include <cstdint>
#include <vector>

#include "hammock/host_tensor.h"

namespace hammock::reference {

/// Elements [first, first + count) of `tensor`, converted as a cast does.
template <class Wide>
void Load(const HostTensor& tensor, int64_t first, int64_t count, Wide* out);
/// The reverse: rounds or wraps to the tensor's dtype.
template <class Wide>
void Store(const Wide* in, int64_t count, HostTensor& tensor, int64_t first);

template <class Wide>
std::vector<Wide> LoadAll(const HostTensor& tensor) {
  std::vector<Wide> values(tensor.numel());
  Load(tensor, 0, tensor.numel(), values.data());
  return values;
}

/// Calls `f(Wide{})` with the wide type of `dtype`.
template <class F>
decltype(auto) VisitWide(DType dtype, F&& f) {
  if (IsFloat(dtype)) return f(double{});
  if (dtype == DType::kU64) return f(uint64_t{});
  return f(int64_t{});
}

/// As VisitWide, for sums and products: signed and unsigned integers wrap alike, so one type serves
/// both.
template <class F>
decltype(auto) VisitSum(DType dtype, F&& f) {
  if (IsFloat(dtype)) return f(double{});
  return f(uint64_t{});
}

/// One side of a strided copy: element (i, j, ...) lies at offset + i * strides[0] + ...
struct Strided {
  int64_t offset = 0;
  Dims strides;
};

/// to[...] = from[...] for every index below `sizes`, in row-major order.
void CopyStrided(const Dims& sizes, const HostTensor& from, const Strided& from_layout,
                 HostTensor& to, const Strided& to_layout);

/// Row-major layout of a tensor of these sizes.
Strided Contiguous(const Dims& sizes);

/// The layout that reads a tensor of `sizes` as the broadcast of it to `target`.
Strided BroadcastLayout(const Dims& sizes, const Dims& target);

/// A dim of a tensor of outer * extent * inner elements. A 0-d tensor has the dim 0.
struct Axis {
  Axis(const Dims& sizes, int dim);
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
};

}  // namespace hammock::reference
