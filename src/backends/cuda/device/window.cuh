#pragma once
// Windows over planes. `Kind` says which, and what they compute:
//   From, To, Wide               elements, results, and what is computed in
//   identity(), value(from), combine(sum, wide), result(wide)
//   Index                        an integer that holds numbers and positions, also those in the
//   padding kDims                        of a plane kWindow[], kStride[], kDilation[]     by dim; a
//   window of 0 is an argument

#include "backends/cuda/device/kernel.cuh"
#include "backends/cuda/device/window_args.h"

namespace hammock::cuda {

template <class Kind, class To, class Position>
using WindowArgsOf = WindowDimArgs<typename Kind::From, To, Position, Kind::kDims>;

// Coordinates in a plane, and the number of the plane.
template <class Kind>
struct Coordinates {
  __device__ __forceinline__ Coordinates(int64_t i, const int64_t (&sizes)[Kind::kDims]) {
    plane = (typename Kind::Index)i;
#pragma unroll
    for (int d = Kind::kDims - 1; d >= 0; --d) {
      at[d] = plane % (typename Kind::Index)sizes[d];
      plane /= (typename Kind::Index)sizes[d];
    }
  }
  typename Kind::Index at[Kind::kDims], plane;
};

template <class Kind>
__device__ __forceinline__ typename Kind::Index product(const int64_t (&sizes)[Kind::kDims]) {
  typename Kind::Index all = 1;
#pragma unroll
  for (int d = 0; d < Kind::kDims; ++d) all *= (typename Kind::Index)sizes[d];
  return all;
}

template <class Kind, int kDim>
__device__ __forceinline__ typename Kind::Index window_size(const WindowDims<Kind::kDims>& dims) {
  constexpr int kSize = Kind::kWindow[kDim];
  return kSize > 0 ? (typename Kind::Index)kSize : (typename Kind::Index)dims.window[kDim];
}

// Calls `body(position)` for each element of a window that is no padding: its position in the
// plane.
template <int kDim, class Kind, class Body>
__device__ __forceinline__ void for_each_element(const WindowDims<Kind::kDims>& dims,
                                                 const Coordinates<Kind>& of,
                                                 typename Kind::Index position, const Body& body) {
  using I = typename Kind::Index;
  if constexpr (kDim == Kind::kDims) {
    body(position);
  } else {
    constexpr I kStride = Kind::kStride[kDim], kDilation = Kind::kDilation[kDim];
    const I in = (I)dims.in[kDim];
    for (I t = 0; t < window_size<Kind, kDim>(dims); ++t) {
      const I p = of.at[kDim] * kStride - (I)dims.low[kDim] + t * kDilation;
      if (p < 0 || p >= in) continue;
      for_each_element<kDim + 1>(dims, of, position * in + p, body);
    }
  }
}

// Calls `body(window)` for each window that an element is in: its number in the plane of windows.
// In the order of their numbers, in each dim from the window whose last element it is to the one
// whose first.
template <int kDim, class Kind, class Body>
__device__ __forceinline__ void for_each_window(const WindowDims<Kind::kDims>& dims,
                                                const Coordinates<Kind>& of,
                                                typename Kind::Index window, const Body& body) {
  using I = typename Kind::Index;
  if constexpr (kDim == Kind::kDims) {
    body(window);
  } else {
    constexpr I kStride = Kind::kStride[kDim], kDilation = Kind::kDilation[kDim];
    const I end = of.at[kDim] + (I)dims.low[kDim], out = (I)dims.out[kDim];
    const I span = (window_size<Kind, kDim>(dims) - 1) * kDilation;
    for (I o = end > span ? (end - span + kStride - 1) / kStride : 0; o < out && o * kStride <= end;
         ++o) {
      if (kDilation > 1 && (end - o * kStride) % kDilation != 0) continue;
      for_each_window<kDim + 1>(dims, of, window * out + o, body);
    }
  }
}

// A thread for each window.
template <class Kind>
__device__ __forceinline__ void reduce_windows(
    const WindowArgsOf<Kind, typename Kind::To, void>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const Coordinates<Kind> of(i, args.dims.out);
  const typename Kind::From* plane = args.from + (int64_t)of.plane * product<Kind>(args.dims.in);
  typename Kind::Wide sum = Kind::identity();
  for_each_element<0>(args.dims, of, 0, [&](typename Kind::Index position) {
    sum = Kind::combine(sum, Kind::value(plane[position]));
  });
  args.to[i] = Kind::result(sum);
}

// The position of the maximum of each window: the first one, but the last NaN; -1 of padding only.
template <class Kind, class Position>
__device__ __forceinline__ void find_maxima(const WindowArgsOf<Kind, Position, void>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const Coordinates<Kind> of(i, args.dims.out);
  const typename Kind::From* plane = args.from + (int64_t)of.plane * product<Kind>(args.dims.in);
  typename Kind::Wide largest = 0;
  int64_t at = -1;
  for_each_element<0>(args.dims, of, 0, [&](typename Kind::Index position) {
    const typename Kind::Wide x = Kind::value(plane[position]);
    if (at < 0 || x != x || x > largest) {
      largest = x;
      at = position;
    }
  });
  args.to[i] = (Position)at;
}

// A thread for each element sums up the windows whose maximum it is, in their order.
template <class Kind, class Position>
__device__ __forceinline__ void sum_windows_of_maxima(
    const WindowArgsOf<Kind, typename Kind::To, Position>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const Coordinates<Kind> of(i, args.dims.in);
  const int64_t first = (int64_t)of.plane * product<Kind>(args.dims.out);
  typename Kind::Index mine = 0;
#pragma unroll
  for (int d = 0; d < Kind::kDims; ++d) {
    mine = mine * (typename Kind::Index)args.dims.in[d] + of.at[d];
  }
  typename Kind::Wide sum = 0;
  for_each_window<0>(args.dims, of, 0, [&](typename Kind::Index window) {
    if (args.positions[first + window] == (Position)mine) {
      sum = Kind::combine(sum, Kind::value(args.from[first + window]));
    }
  });
  args.to[i] = Kind::result(sum);
}

}  // namespace hammock::cuda
