#pragma once
// Matmuls that no library has, or that it would take longer to start than to run. `Kind` has the
// types Element, Out and Wide, value(element), add_product(sum, x, y) and result(sum, bias,
// column).

#include "backends/cuda/device/kernel.cuh"
#include "backends/cuda/device/matmul_args.h"

namespace hammock::cuda {

// The row of `a` and the column of `b` whose product is element `i` of the result.
template <class Element>
struct MatMulElement {
  template <class Args>
  __device__ __forceinline__ MatMulElement(const Args& args, int64_t i) {
    column = i % args.n;
    const int64_t line = i / args.n, row = line % args.m, batch = line / args.m;
    a = args.a + batch * args.a_batch + row * args.a_row;
    b = args.b + batch * args.b_batch + column * args.b_column;
  }
  int64_t column;
  const Element* a;
  const Element* b;
};

// One thread for each element of the result.
template <class Kind>
__device__ __forceinline__ void multiply_by_threads(
    const MatMulArgs<typename Kind::Element, typename Kind::Out>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const MatMulElement<typename Kind::Element> of(args, i);
  typename Kind::Value sum = 0;
  for (int64_t k = 0; k < args.k; ++k) {
    sum = Kind::add_product(sum, Kind::value(of.a[k * args.a_column]),
                            Kind::value(of.b[k * args.b_row]));
  }
  args.out[i] = Kind::result(sum, args.bias, of.column);
}

// One warp for each element of the result; a row of `a` and a column of `b` are contiguous.
template <class Kind>
__device__ __forceinline__ void multiply_by_warps(
    const MatMulArgs<typename Kind::Element, typename Kind::Out>& args) {
  const int lane = threadIdx.x % 32;
  const int64_t mine = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
  const int64_t i = mine < args.count ? mine : 0;
  const MatMulElement<typename Kind::Element> of(args, i);
  typename Kind::Value sum = 0;
#pragma unroll 8
  for (int k = lane; k < (int)args.k; k += 32) {
    sum = Kind::add_product(sum, Kind::value(of.a[k]), Kind::value(of.b[k]));
  }
  for (int step = 16; step > 0; step /= 2) sum += shuffle_xor(sum, step);
  if (lane == 0 && mine < args.count) args.out[i] = Kind::result(sum, args.bias, of.column);
}

}  // namespace hammock::cuda
