#pragma once

#include "backends/cuda/device/index_args.h"
#include "backends/cuda/device/kernel.cuh"

namespace hammock::cuda {

// Whether x precedes y: a NaN before numbers, the first of equal ones.
template <bool kMax, class Value>
__device__ inline bool better(Value x, int64_t at_x, Value y, int64_t at_y) {
  const bool x_nan = x != x, y_nan = y != y;
  if (at_y < 0) return at_x >= 0;
  if (at_x < 0) return false;
  if (x_nan != y_nan) return x_nan;
  if (!x_nan && x != y) return kMax ? x > y : x < y;
  return at_x < at_y;
}

// A block for each line: each thread reduces every 256th element, then the block reduces over its
// threads. `Read` has the types Memory and Value, and value(element).
template <class Read, bool kMax>
__device__ __forceinline__ void arg_reduce(const ArgReduceArgs<typename Read::Memory>& args) {
  using Value = typename Read::Value;
  const int64_t block = blockIdx.x;
  const int t = threadIdx.x;
  const typename Read::Memory* line =
      args.from + block / args.inner * args.extent * args.inner + block % args.inner;
  Value best = 0;
  int64_t at = -1;
  for (int64_t k = t; k < args.extent; k += 256) {
    const Value x = Read::value(line[k * args.inner]);
    if (better<kMax>(x, k, best, at)) {
      best = x;
      at = k;
    }
  }
  __shared__ Value bests[256];
  __shared__ int64_t ats[256];
  bests[t] = best;
  ats[t] = at;
  __syncthreads();
  for (int half = 128; half >= 1; half /= 2) {
    if (t < half && better<kMax>(bests[t + half], ats[t + half], bests[t], ats[t])) {
      bests[t] = bests[t + half];
      ats[t] = ats[t + half];
    }
    __syncthreads();
  }
  if (t == 0) args.to[block] = ats[0];
}

}  // namespace hammock::cuda
