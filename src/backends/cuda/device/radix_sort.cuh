#pragma once
// The kernels of Note [Radix sort]. `Items` says what is sorted:
//   Key, Load, Args                         a key as it is carried, what goes with it, arguments
//   kNarrows                                whether the range of keys was looked for
//   order_key(key)                          an unsigned integer
//   read_key(args, extent, row, at)         of an item
//   read_load(args, at)
//   check(args, at, digits)                 looks at each item once
//   write(args, row, at, key, load)         takes an item to its index in the sorted row

#include "backends/cuda/device/block_sums.cuh"
#include "backends/cuda/device/radix_sort_args.h"

namespace hammock::cuda {

template <class Items, class State>
struct RadixItemArgs : RadixArgs<typename Items::Key, typename Items::Load, State> {
  typename Items::Args items;
};

template <class Items>
using DigitsOf = typename Either<sizeof(typename Items::Key) == 8, uint64_t, unsigned>::Type;

struct RadixPart {
  int64_t row, begin, end;
};
template <class Args>
__device__ __forceinline__ RadixPart part_of_block(const Args& args) {
  const int64_t row = blockIdx.x / args.parts, begin = blockIdx.x % args.parts * args.part_size;
  const int64_t end = begin + args.part_size;
  return {row, begin, end < args.extent ? end : args.extent};
}

// Passes that the range of a row needs, at least one.
template <class Items, class Args>
__device__ __forceinline__ int passes_needed(const Args& args, int64_t row) {
  const int passes = (int)args.passes, width = (int)args.digit_bits;
  if (!Items::kNarrows) return passes;
  const uint64_t size = args.range[2 * row + 1] - ~args.range[2 * row];
  int needed = 1;
  while (needed < passes && size >> needed * width != 0) ++needed;
  return needed;
}
template <class Items, class Args>
__device__ __forceinline__ DigitsOf<Items> lowest_key(const Args& args, int64_t row) {
  return Items::kNarrows ? (DigitsOf<Items>)~args.range[2 * row] : (DigitsOf<Items>)0;
}

// The range of a row's keys: the complement of the smallest one, and the largest one. Both were 0.
template <class Items, class State>
__device__ __forceinline__ void radix_range(const RadixItemArgs<Items, State>& args) {
  const int t = threadIdx.x;
  const RadixPart part = part_of_block(args);
  uint64_t lowest = 0, highest = 0;
  for (int64_t at = part.begin + t; at < part.end; at += 256) {
    const uint64_t x = Items::order_key(Items::read_key(args.items, args.extent, part.row, at));
    if (~x > lowest) lowest = ~x;
    if (x > highest) highest = x;
  }
  __shared__ uint64_t lows[8], highs[8];
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const uint64_t low = shuffle_xor(lowest, lanes), high = shuffle_xor(highest, lanes);
    if (low > lowest) lowest = low;
    if (high > highest) highest = high;
  }
  if (t % 32 == 0) {
    lows[t / 32] = lowest;
    highs[t / 32] = highest;
  }
  __syncthreads();
  if (t < 8) {
    atomicMax(args.range + 2 * part.row, lows[t]);
    atomicMax(args.range + 2 * part.row + 1, highs[t]);
  }
}

// How often each value of each digit is in a part of a row.
template <class Items, class State>
__device__ __forceinline__ void radix_count(const RadixItemArgs<Items, State>& args) {
  using Digits = DigitsOf<Items>;
  const int t = threadIdx.x;
  const int passes = (int)args.passes, width = (int)args.digit_bits;
  const unsigned most = (1u << width) - 1;
  const auto [row, begin, end] = part_of_block(args);
  const int needed = passes_needed<Items>(args, row);
  const Digits low = lowest_key<Items>(args, row);
  __shared__ unsigned found[8 * 256];
  for (int pass = 0; pass < passes; ++pass) found[pass * 256 + t] = 0;
  __syncthreads();
  for (int64_t first = begin + t; first < end; first += 8 * 256) {
    Digits digits[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int64_t at = first + k * 256;
      typename Items::Key key = 0;
      if (at < end) key = Items::read_key(args.items, args.extent, row, at);
      digits[k] = Items::order_key(key) - low;
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int64_t at = first + k * 256;
      if (at >= end) continue;
      Items::check(args.items, at, digits[k]);
      for (int pass = 0; pass < needed; ++pass) {
        atomicAdd(&found[pass * 256 + (unsigned)(digits[k] >> pass * width & most)], 1u);
      }
    }
  }
  __syncthreads();
  for (int pass = 0; pass < needed; ++pass) {
    const unsigned mine = found[pass * 256 + t];
    if (mine != 0) atomicAdd(args.counts + (row * passes + pass) * 256 + t, mine);
  }
}

// A block for each row: counts become where each value begins, and it is planned which passes run.
template <class Items, class State>
__device__ __forceinline__ void radix_plan(const RadixItemArgs<Items, State>& args) {
  const int t = threadIdx.x, passes = (int)args.passes;
  const int64_t row = blockIdx.x;
  const int needed = passes_needed<Items>(args, row);
  __shared__ unsigned sums[8];
  __shared__ int last;
  unsigned* plan = args.plan + row * passes;
  if (t == 0) last = 0;
  for (int pass = 0; pass < passes; ++pass) {
    if (t == 0) plan[pass] = pass < needed;
    unsigned* counts = args.counts + (row * passes + pass) * 256;
    const unsigned mine = counts[t];
    counts[t] = sum_to_here(mine, sums, t) - mine;
    if (mine == (unsigned)args.extent) plan[pass] = 0;
    __syncthreads();
    if (t == 0 && plan[pass]) last = pass;
  }
  if (t != 0) return;
  plan[last] = 1;
  unsigned before = 0;
  for (int pass = 0; pass < passes; ++pass) {
    if (!plan[pass]) continue;
    plan[pass] = 1 + (pass == last ? 2 : 0) + 4 * before++;
    atomicMax(args.tickets + 8 + pass, 1u);
  }
}

// The lanes of the warp that have the same digit.
__device__ inline unsigned same_digit(unsigned digit) {
#if HAMMOCK_PTX
  unsigned same = 0xffffffffu;
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    unsigned votes;
    asm volatile(
        "{ .reg .pred set;\n"
        "and.b32 %0, %1, %2; setp.ne.u32 set, %0, 0; vote.sync.ballot.b32 %0, set, 0xffffffff;\n"
        "@!set not.b32 %0, %0; }"
        : "=r"(votes)
        : "r"(digit), "r"(1u << bit));
    same &= votes;
  }
  return same;
#else
  return __match_any_sync(0xffffffffu, digit);
#endif
}

// The number of items of earlier tiles with the digit of these states: each tile posts first its
// own count, and then the count up to its end.
template <class State>
__device__ inline State look_back(const volatile State* states, int64_t part) {
  const int known = sizeof(State) * 8 - 2;
  State before = 0;
  while (true) {
    State seen[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      seen[k] = part > k ? states[(part - 1 - k) * 256] : (State)2 << known;
    }
    bool waits = false;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (waits) continue;
      waits = seen[k] >> known == 0;
      if (waits) continue;
      before += seen[k] & (((State)1 << known) - 1);
      if (seen[k] >> known == 2) return before;
      --part;
    }
  }
}

// One pass: a block moves a tile of 256 * kEach items.
template <class Items, class State, int kEach>
__device__ __forceinline__ void radix_move(const RadixItemArgs<Items, State>& args) {
  using Key = typename Items::Key;
  using Load = typename Items::Load;
  using Digits = DigitsOf<Items>;
  __shared__ unsigned found[8 * 256 + 1];  // the last one is for absent items
  __shared__ unsigned shifts[256];
  __shared__ unsigned sums[8];
  __shared__ unsigned ticket;
  __shared__ Key tile_keys[256 * kEach];
  __shared__ Load tile_loads[256 * kEach];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int passes = (int)args.passes, pass = (int)args.pass, width = (int)args.digit_bits;
  const int known = sizeof(State) * 8 - 2;
  const unsigned most = (1u << width) - 1;
  const int64_t extent = args.extent, tiles = args.tiles;
  if (args.tickets[8 + pass] == 0) return;
  if (t == 0) ticket = atomicAdd(args.tickets + pass, 1u);
  for (int k = 0; k < 8; ++k) found[k * 256 + t] = 0;
  __syncthreads();
  const int64_t row = ticket / tiles, part = ticket % tiles;
  const unsigned plan = args.plan[row * passes + pass];
  if (!plan) return;
  const unsigned before = plan / 4;
  const Digits low = lowest_key<Items>(args, row);
  const int shift = pass * width;
  const int64_t tile = part * (256 * kEach);
  const int count = extent - tile < 256 * kEach ? (int)(extent - tile) : 256 * kEach;
  const int mine = warp * (32 * kEach) + lane;
  const Key* keys_from = (before % 2 ? args.keys[0] : args.keys[1]) + row * extent;
  const Load* loads_from = (before % 2 ? args.loads[0] : args.loads[1]) + row * extent;

  Key keys[kEach];
  unsigned spots[kEach];
  if (before == 0) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int64_t at = tile + mine + k * 32;
      keys[k] = at < extent ? Items::read_key(args.items, extent, row, at) : (Key)0;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      keys[k] = mine + k * 32 < count ? keys_from[tile + mine + k * 32] : (Key)0;
    }
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const unsigned outside = mine + k * 32 < count ? 0u : ~0u;
    spots[k] = ((unsigned)((Items::order_key(keys[k]) - low) >> shift) | outside) & most;
    atomicAdd(&found[outside ? 8 * 256 : warp * 256 + (int)spots[k]], 1u);
  }
  __syncthreads();

  // From here on a thread also has a value of the digit.
  unsigned all = 0;
  for (int k = 0; k < 8; ++k) all += found[k * 256 + t];
  volatile State* states =
      (volatile State*)(before % 2 ? args.states[1] : args.states[0]) + row * tiles * 256 + t;
  const unsigned begins = part == 0 ? args.counts[(row * passes + pass) * 256 + t] : 0;
  states[part * 256] = part == 0 ? ((State)2 << known) + begins + all : ((State)1 << known) + all;
  (before % 2 ? args.states[0] : args.states[1])[(row * tiles + part) * 256 + t] = 0;
  const unsigned start = sum_to_here(all, sums, t) - all;
  unsigned next = start;
  for (int k = 0; k < 8; ++k) {
    const unsigned x = found[k * 256 + t];
    found[k * 256 + t] = next;
    next += x;
  }
  __syncthreads();

#pragma unroll
  for (int first = 0; first < kEach; first += 4) {
    unsigned same[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) same[k] = same_digit(spots[first + k]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      unsigned* slot = &found[warp * 256 + spots[first + k]];
      const unsigned old = *slot;
      __syncwarp();
      *slot = old + __popc(same[k]);  // the same for all lanes that write there
      __syncwarp();
      spots[first + k] = old + __popc(same[k] & ((1u << lane) - 1));
    }
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) tile_keys[spots[k]] = keys[k];
  Load loads[kEach];
  if (before == 0) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int64_t at = tile + mine + k * 32;
      loads[k] = at < extent ? Items::read_load(args.items, at) : (Load)0;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      loads[k] = mine + k * 32 < count ? loads_from[tile + mine + k * 32] : (Load)0;
    }
  }
  if (part == 0) {
    shifts[t] = begins - start;
  } else {
    const State earlier = look_back<State>(states, part);
    states[part * 256] = ((State)2 << known) + earlier + all;
    shifts[t] = (unsigned)earlier - start;
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) tile_loads[spots[k]] = loads[k];
  __syncthreads();

  Key* keys_to = (before % 2 ? args.keys[1] : args.keys[0]) + row * extent;
  Load* loads_to = (before % 2 ? args.loads[1] : args.loads[0]) + row * extent;
#pragma unroll 1
  for (int first = 0; first < kEach; first += 4) {
    Key key_of[4];
    Load load_of[4];
    unsigned at_of[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int i = t + (first + k) * 256;
      key_of[k] = tile_keys[i];
      load_of[k] = tile_loads[i];
      at_of[k] = shifts[(unsigned)((Items::order_key(key_of[k]) - low) >> shift) & most] + i;
    }
    if (plan & 2) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (t + (first + k) * 256 < count) {
          Items::write(args.items, row, at_of[k], key_of[k], load_of[k]);
        }
      }
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (t + (first + k) * 256 >= count) continue;
        keys_to[at_of[k]] = key_of[k];
        loads_to[at_of[k]] = load_of[k];
      }
    }
  }
}

}  // namespace hammock::cuda
