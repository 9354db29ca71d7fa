#pragma once
// Calls with indices. Wrong ones are noted, and nothing outside of an operand is touched.

#include "backends/cuda/device/index_args.h"
#include "backends/cuda/device/kernel.cuh"

namespace hammock::cuda {

template <class Element, class Index, int kDims>
__device__ __forceinline__ void gather(const GatherDimArgs<Element, Index, kDims>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const int64_t position = offset_of(args.in_from, i), index = args.index[i];
  const bool inside = index >= 0 && index < args.extent;
  if (!inside) note_fault(args.fault, i, index);
  args.to[i] = inside ? args.from[position + index * args.stride] : Element();
}

template <class Element, class Index>
__device__ __forceinline__ void index_select(const IndexSelectArgs<Element, Index>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const int64_t inner = i % args.inner, line = i / args.inner;
  const int64_t which = line % args.picked, outer = line / args.picked;
  const int64_t index = args.index[which];
  const bool inside = index >= 0 && index < args.extent;
  if (!inside) note_fault(args.fault, which, index);
  args.to[i] = inside ? args.from[(outer * args.extent + index) * args.inner + inner] : Element();
}

// `Start` has the type Memory and value(start).
template <class Element, class Start, bool kUpdates>
__device__ __forceinline__ void dynamic_slice(
    const DynamicSliceArgs<Element, typename Start::Memory>& args) {
  const int64_t i = element_index();
  if (i >= args.count || (kUpdates && args.failed && *args.failed)) return;
  const int64_t start = Start::value(args.start[0]);
  const bool inside = start >= 0 && start <= args.extent - args.span;
  if (!inside && args.fault) note_fault(args.fault, 0, start);
  const int64_t inner = i % args.inner, line = i / args.inner;
  const int64_t k = line % args.size, outer = line / args.size;
  const int64_t at = (outer * args.extent + start + k * args.step) * args.inner + inner;
  if constexpr (kUpdates) {
    if (inside) args.to[at] = args.from[i];
  } else {
    args.to[i] = inside ? args.from[at] : Element();
  }
}

// Four words of Philox for each thread.
__device__ __forceinline__ void random_bits(const RandomBitsArgs& args) {
  const int64_t i = element_index();
  if (i >= args.blocks) return;
  unsigned words[4];
  random_block((uint64_t)args.state, i, words);
  const int64_t left = args.count - 4 * i;
  store_some<4>(args.to + 4 * i, left < 4 ? (int)left : 4, words);
}

__device__ __forceinline__ void require(const RequireArgs& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  if (args.conditions[i] == 0) note_fault(args.fault, 0, 0);
}

// Quotients of integers. `Fn` has the types Element and Value, value(element) and
// quotient(value, value), an element.
template <class Fn>
__device__ __forceinline__ void quotients(const QuotientArgs<typename Fn::Element>& args) {
  const int64_t i = element_index();
  if (i >= args.count) return;
  const typename Fn::Value y = Fn::value(args.y[i]);
  if (y == 0) note_fault(args.fault, i, 0);
  args.to[i] = Fn::quotient(Fn::value(args.x[i]), y);
}

}  // namespace hammock::cuda
