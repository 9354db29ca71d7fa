#pragma once
// Scatters of sums that round, after their indices were sorted: all items with one target are a
// run. `Kind` says what is scattered:
//   Element, Wide            elements in memory, and what they are combined in
//   value(element), combine(sum, value), result(sum)
//   Sorted, Load             sorted words, and what goes with them
//   kCarried                 loads are elements, else positions
//   kRows                    an index moves a row, else an element
//   kWholeRows               rows are contiguous
//   kFresh                   the destination begins as 0 and is not read
//   kLastWins                the last item of a run replaces the others
//   kVector                  elements that a thread moves at once
//   kDims, kFew              of the source's offsets

#include "backends/cuda/device/block_sums.cuh"
#include "backends/cuda/device/scatter_args.h"

namespace hammock::cuda {

template <class Kind>
using RunArgs = SortedScatterDimArgs<Kind>;

__device__ __forceinline__ unsigned target_in(unsigned word) { return word; }
__device__ __forceinline__ unsigned target_in(uint64_t word) { return (unsigned)(word >> 32); }

template <class Args>
__device__ __forceinline__ unsigned target_at(const Args& args, int64_t i) {
  return target_in(args.sorted[i]);
}

// The number of sorted items, from `low` to `high`, with a smaller target.
template <class Args>
__device__ inline int64_t count_below(const Args& args, int64_t low, int64_t high,
                                      uint64_t target) {
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (target_at(args, middle) < target) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class Args>
__device__ __forceinline__ void list_long_run(const Args& args, int64_t i) {
  const unsigned slot = atomicAdd(&args.lists[1], 1u);
  if (slot <= (unsigned)(args.count / kScatterRun)) {
    args.lists[2 + args.most_runs + slot] = (unsigned)i;
  }
}

// Some of the elements that an index moves: column `c` and those after it.
struct Columns {
  int64_t c, outer, column, at;  // `at`: of their destinations
};
template <class Kind>
__device__ __forceinline__ Columns columns_at(const RunArgs<Kind>& args, unsigned target,
                                              int64_t c) {
  if constexpr (!Kind::kRows) {
    return {c, 0, 0, (int64_t)target};
  } else if constexpr (Kind::kWholeRows) {
    return {c, 0, c, (int64_t)target * args.columns + c};
  } else {
    const int64_t inner = args.inner, outer = c / inner, column = c % inner;
    return {c, outer, column, (outer * args.extent + (int64_t)target) * inner + column};
  }
}

// The elements that the sorted item `k` moves.
template <class Kind>
__device__ __forceinline__ void read_item(const RunArgs<Kind>& args, const Columns& of, int64_t k,
                                          typename Kind::Element* x) {
  using Load = typename Kind::Load;
  if constexpr (Kind::kCarried) {
    load_wide<1>(args.loads + k, (Load*)x);
  } else {
    int64_t position;
    if constexpr (sizeof(args.sorted[k]) == 4) {
      position = args.loads[k];
    } else {
      position = (int64_t)(args.sorted[k] & 0xffffffffull);
    }
    int64_t at;
    if constexpr (!Kind::kRows) {
      at = offset_of<Kind::kFew>(args.in_source, position);
    } else if constexpr (Kind::kWholeRows) {
      at = position * args.columns + of.c;
    } else {
      at = (of.outer * args.count + position) * args.inner + of.column;
    }
    load_wide<Kind::kVector>(args.from + at, x);
  }
}

// The value of some elements, in registers.
template <class Kind>
using Sum = typename Kind::Wide[Kind::kVector];

template <class Kind>
__device__ __forceinline__ void set(Sum<Kind>& sum, const typename Kind::Element* x) {
#pragma unroll
  for (int v = 0; v < Kind::kVector; ++v) sum[v] = Kind::value(x[v]);
}
template <class Kind>
__device__ __forceinline__ void add(Sum<Kind>& sum, const typename Kind::Element* x) {
#pragma unroll
  for (int v = 0; v < Kind::kVector; ++v) sum[v] = Kind::combine(sum[v], Kind::value(x[v]));
}
// The old value, which is 0 in fresh memory.
template <class Kind>
__device__ __forceinline__ void load_old(Sum<Kind>& sum, const RunArgs<Kind>& args, int64_t at) {
  typename Kind::Element x[Kind::kVector] = {};
  if constexpr (!Kind::kFresh) load_wide<Kind::kVector>(args.to + at, x);
  set<Kind>(sum, x);
}
template <class Kind>
__device__ __forceinline__ void store(const Sum<Kind>& sum, const RunArgs<Kind>& args, int64_t at) {
  typename Kind::Element x[Kind::kVector];
#pragma unroll
  for (int v = 0; v < Kind::kVector; ++v) x[v] = Kind::result(sum[v]);
  store_wide<Kind::kVector>(args.to + at, x);
}

// Lists the first items of runs, the long ones after the others; if the last item wins, the last
// items. The lists have no order. For fresh rows there is a word for each row instead, one more
// than the first item of its run. Wrong targets may divide a run, so the list may overflow; the
// results are not used then.
template <class Kind>
__device__ __forceinline__ void list_runs(const RunArgs<Kind>& args) {
  constexpr bool kWritesAll = Kind::kFresh && Kind::kRows;
  const int64_t all = args.count, block = blockIdx.x;
  unsigned* lists = args.lists;
  const int t = threadIdx.x;
  __shared__ unsigned sums[8];
  __shared__ unsigned first;
  unsigned mine = 0, count = 0;
  for (int k = 0; k < 8; ++k) {
    const int64_t i = block * 2048 + 8 * t + k;
    if (i >= all) continue;
    const unsigned target = target_at(args, i);
    if (target == kWrongTarget) continue;
    if (Kind::kLastWins ? i + 1 < all && target_at(args, i + 1) == target
                        : i > 0 && target_at(args, i - 1) == target) {
      continue;
    }
    if (!Kind::kLastWins && i + kScatterRun < all && target_at(args, i + kScatterRun) == target) {
      list_long_run(args, i);
    } else {
      mine |= 1u << k;
      ++count;
      if (kWritesAll) lists[2 + target] = (unsigned)i + 1;
    }
  }
  if constexpr (!kWritesAll) {
    const unsigned here = sum_to_here(count, sums, t);
    if (t == 255) first = atomicAdd(&lists[0], here);
    __syncthreads();
    unsigned slot = first + here - count;
    for (int k = 0; k < 8; ++k) {
      if (!(mine >> k & 1)) continue;
      if (slot < (unsigned)args.most_runs) {
        lists[2 + slot] = (unsigned)(block * 2048 + 8 * t + k);
      }
      ++slot;
    }
  }
}

// Short runs of elements. A block lists the runs that begin in its 2,048 items in shared memory,
// where their targets and elements are; then each run has a thread.
template <class Kind>
__device__ __forceinline__ void scatter_elements(const RunArgs<Kind>& args) {
  using Element = typename Kind::Element;
  const int64_t all = args.count, begin = (int64_t)blockIdx.x * 2048;
  const int t = threadIdx.x;
  // The targets of the items, of one before and of 128 after them, and the elements.
  __shared__ unsigned targets[2177 + 2177 / 8 + 1];
  __shared__ Element values[2048 + 128];
  unsigned some_targets[9];
  Element some[9];
#pragma unroll
  for (int m = 0; m < 9; ++m) {
    const int64_t k = begin - 1 + t + m * 256;
    some_targets[m] = k >= 0 && k < all ? target_at(args, k) : kWrongTarget;
  }
#pragma unroll
  for (int m = 0; m < 9; ++m) {
    const int64_t k = begin + t + m * 256;
    if (k >= all || t + m * 256 >= 2048 + 128) continue;
    read_item<Kind>(args, {}, k, &some[m]);
  }
#pragma unroll
  for (int m = 0; m < 9; ++m) {
    const int n = t + m * 256;
    if (n < 2177) targets[index_of(n)] = some_targets[m];
    if (n < 2048 + 128) values[n] = some[m];
  }
  __syncthreads();

  // Where runs begin, or end where the last item wins.
  __shared__ unsigned short heads[2048];
  __shared__ unsigned sums[8];
  __shared__ unsigned found;
  unsigned mine = 0, count = 0;
  for (int k = 0; k < 8; ++k) {
    const int n = 8 * t + k + 1;
    const unsigned target = targets[index_of(n)];
    if (target == kWrongTarget) continue;
    if (targets[index_of(Kind::kLastWins ? n + 1 : n - 1)] == target) continue;
    if (!Kind::kLastWins && targets[index_of(n + kScatterRun)] == target) {
      list_long_run(args, begin + n - 1);
      continue;
    }
    mine |= 1u << k;
    ++count;
  }
  unsigned here = sum_to_here(count, sums, t);
  if (t == 255) found = here;
  here -= count;
  for (int k = 0; k < 8; ++k) {
    if (mine >> k & 1) heads[here++] = (unsigned short)(8 * t + k);
  }
  __syncthreads();

  for (int r = t; r < (int)found; r += 256) {
    int n = heads[r];
    const unsigned target = targets[index_of(n + 1)];
    const int64_t at = (int64_t)target;
    if constexpr (Kind::kLastWins) {
      args.to[at] = values[n];
    } else {
      Sum<Kind> sum;
      load_old<Kind>(sum, args, at);
      do {
        add<Kind>(sum, &values[n]);
        ++n;
      } while (n < 2048 + 128 && targets[index_of(n + 1)] == target);
      store<Kind>(sum, args, at);
    }
  }
}

// Short runs of rows, in order. kThreads: for each destination.
template <class Kind, int kThreads>
__device__ __forceinline__ void scatter_rows(const RunArgs<Kind>& args) {
  constexpr int kVector = Kind::kVector;
  const int64_t i = element_index(), all = args.count;
  if (i >= args.threads) return;
  const unsigned* lists = args.lists;
  unsigned target;
  int64_t first;
  bool met = true;
  if constexpr (Kind::kFresh && Kind::kRows) {
    target = (unsigned)(i / kThreads);
    met = lists[2 + target] != 0;
    first = met ? (int64_t)lists[2 + target] - 1 : all;
  } else {
    if (i / kThreads >= lists[0]) return;
    first = lists[2 + i / kThreads];
    target = target_at(args, first);
  }
  for (int64_t c = i % kThreads * kVector; c < args.columns; c += kThreads * kVector) {
    const Columns of = columns_at<Kind>(args, target, c);
    Sum<Kind> sum;
    load_old<Kind>(sum, args, of.at);
    typename Kind::Element x[kVector];
    if constexpr (Kind::kLastWins) {
      if (met) {
        read_item<Kind>(args, of, first, x);
        set<Kind>(sum, x);
      }
    } else {
      for (int64_t k = first; k < all && target_at(args, k) == target; ++k) {
        read_item<Kind>(args, of, k, x);
        add<Kind>(sum, x);
      }
    }
    store<Kind>(sum, args, of.at);
  }
}

// Of kScatterRun items, the parts of up to two long runs: one that goes on here, one that begins
// here. kThreads: for each part.
template <class Kind, int kThreads>
__device__ __forceinline__ void scatter_parts(const RunArgs<Kind>& args) {
  constexpr int kVector = Kind::kVector, kRun = kScatterRun;
  const int64_t i = element_index(), all = args.count;
  if (i >= args.threads) return;
  const int64_t part = i / kThreads, begin = part * kRun;
  if (begin >= all) return;
  const int64_t end = begin + kRun < all ? begin + kRun : all;
  const bool goes_on = begin > 0 && target_at(args, begin - 1) == target_at(args, begin);
  for (int begins = 0; begins < 2; ++begins) {
    const unsigned target = target_at(args, begins ? end - 1 : begin);
    if (target == kWrongTarget || (goes_on && target_at(args, begin) == target) == (begins == 1)) {
      continue;
    }
    const int64_t low = begins ? begin : begin - kRun > 0 ? begin - kRun : 0;
    const int64_t head = count_below(args, low, begins ? end : begin, target);
    if (head + kRun >= all || target_at(args, head + kRun) != target) continue;
    const int64_t first = begins ? head : begin;
    const int64_t last = count_below(args, first, end, target + 1ull);
    for (int64_t c = i % kThreads * kVector; c < args.columns; c += kThreads * kVector) {
      const Columns of = columns_at<Kind>(args, target, c);
      // With functions for this and the next loop, NVRTC does not unroll.
      Sum<Kind> sum;
      {
        typename Kind::Element x[kVector];
        read_item<Kind>(args, of, first, x);
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum[v] = Kind::value(x[v]);
      }
#pragma unroll 8
      for (int64_t k = first + 1; k < last; ++k) {
        typename Kind::Element x[kVector];
        read_item<Kind>(args, of, k, x);
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum[v] = Kind::combine(sum[v], Kind::value(x[v]));
      }
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        args.partial[(2 * part + begins) * args.columns + c + v] = sum[v];
      }
    }
  }
}

// All parts of a long run.
template <class Kind, int kThreads>
__device__ __forceinline__ void scatter_long_runs(const RunArgs<Kind>& args) {
  constexpr int kVector = Kind::kVector, kRun = kScatterRun;
  const int64_t i = element_index(), columns = args.columns;
  if (i >= args.threads) return;
  if (i / kThreads >= args.lists[1]) return;
  const int64_t first = args.lists[2 + args.most_runs + i / kThreads];
  const unsigned target = target_at(args, first);
  const int64_t last = count_below(args, first, args.count, target + 1ull);
  for (int64_t c = i % kThreads * kVector; c < columns; c += kThreads * kVector) {
    const Columns of = columns_at<Kind>(args, target, c);
    Sum<Kind> sum;
    load_old<Kind>(sum, args, of.at);
#pragma unroll 16
    for (int64_t k = first / kRun; k <= (last - 1) / kRun; ++k) {
      const int64_t slot = 2 * k + (k == first / kRun ? 1 : 0);
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        sum[v] = Kind::combine(sum[v], args.partial[slot * columns + c + v]);
      }
    }
    store<Kind>(sum, args, of.at);
  }
}

}  // namespace hammock::cuda
