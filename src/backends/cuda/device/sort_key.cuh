#pragma once

#include "backends/cuda/device/kernel.cuh"
#include "backends/cuda/device/sort_args.h"

namespace hammock::cuda {

// Integers that are ordered as elements are: -0 equals 0 and NaN is the largest. kMantissa: bits of
// a float's.
template <class Bits, KeyKind kKind, bool kDescending, int kMantissa = 0>
struct SortKey {
  using Element = Bits;
  using Integer = typename Either<sizeof(Bits) == 8, uint64_t, unsigned>::Type;

  static __device__ __forceinline__ Integer order(Bits x) {
    constexpr Integer kAll = (Bits) ~(Bits)0, kSign = kAll / 2 + 1;
    Integer key = x;
    if constexpr (kKind == KeyKind::kBool) {
      key = key != 0;
    } else if constexpr (kKind == KeyKind::kFloat) {
      constexpr Integer kInfinity = (kSign - 1) >> kMantissa << kMantissa;
      const Integer size = key & (kSign - 1);
      if (size == 0) key = 0;
      key = key & kSign ? ~key & kAll : key | kSign;
      if (size > kInfinity) key = kAll;
    } else if constexpr (kKind == KeyKind::kSigned) {
      key ^= kSign;
    }
    return kDescending ? ~key & kAll : key;
  }
};

}  // namespace hammock::cuda
