#pragma once
// Reductions of the elements of several ranks, each in the order of ranks. `Fn` says what is
// reduced:
//   Element, Wide                        types of elements and running values
//   value(element), combine(wide, wide), result(wide, ranks)

#include "backends/cuda/device/kernel.cuh"
#include "backends/cuda/device/rank_sums_args.h"

namespace hammock::cuda {

template <class Fn>
__device__ __forceinline__ void rank_sums(const RankSumsArgs<typename Fn::Element>& args) {
  using Wide = typename Fn::Wide;
  const int64_t i = element_index();
  if (i >= args.count) return;
  auto value = [&](int64_t rank) {
    return Fn::value(rank == args.rank ? args.own[i] : args.others[rank * args.stride + i]);
  };
  Wide sum = value(0);
  for (int64_t rank = 1; rank < args.ranks; ++rank) sum = Fn::combine(sum, value(rank));
  args.to[i] = Fn::result(sum, (Wide)args.ranks);
}

}  // namespace hammock::cuda
