#include "backends/cuda/radix_sort.h"

#include <algorithm>

namespace hammock::cuda {
namespace {

constexpr int64_t kTile = 2048;
constexpr int64_t kEnoughBlocks = 1056;
constexpr int64_t kMostBlocks = 512;  // of a row: two counts for each thread that adds them up
constexpr int kWords = 9;

/// Words: blocks, items, sorted items, counts, totals, items of a row, items of a block, blocks of
/// a row, the byte's first bit.
constexpr const char* kShare = R"(
  const int t = threadIdx.x;
  const int shift = (int)w8;
  const long long extent = (long long)w5, each = (long long)w6, blocks = (long long)w7;
  const long long row = block / blocks, part = block % blocks;
  const long long begin = part * each, end = begin + each < extent ? begin + each : extent;
  const unsigned long long* items = (const unsigned long long*)w1 + row * extent;
  unsigned* counts = (unsigned*)w3 + row * 256 * blocks + part;
)";

constexpr const char* kCount = R"(
  __shared__ unsigned found[256];
  found[t] = 0;
  __syncthreads();
  for (long long i = begin + t; i < end; i += 256) {
    atomicAdd(&found[(items[i] >> shift) & 255], 1u);
  }
  __syncthreads();
  counts[t * blocks] = found[t];
)";

/// Inclusive sums over the threads of a block, and a place that leaves some out to use all banks.
constexpr const char* kSums = R"(
__device__ inline int apart(int i) { return i + i / 16; }
__device__ inline unsigned sum_to_here(unsigned x, unsigned* sums, int t) {
  sums[t] = x;
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    const unsigned other = t >= step ? sums[t - step] : 0;
    __syncthreads();
    sums[t] += other;
    __syncthreads();
  }
  return sums[t];
}
)";

/// A block for each value of the byte: how many items of the blocks before have it.
constexpr const char* kPlaces = R"(
  const int t = threadIdx.x;
  const long long blocks = (long long)w7;
  unsigned* counts = (unsigned*)w3 + block * blocks;
  const unsigned first = 2 * t < blocks ? counts[2 * t] : 0;
  const unsigned second = 2 * t + 1 < blocks ? counts[2 * t + 1] : 0;
  __shared__ unsigned sums[256];
  const unsigned all = sum_to_here(first + second, sums, t);
  if (2 * t < blocks) counts[2 * t] = all - first - second;
  if (2 * t + 1 < blocks) counts[2 * t + 1] = all - second;
  if (t == 255) ((unsigned*)w4)[block] = all;
)";

constexpr const char* kMove = R"(
  __shared__ unsigned sums[256];
  __shared__ unsigned places[256];
  __shared__ unsigned firsts[256];
  __shared__ unsigned found[16 * 256 + 256];
  __shared__ unsigned long long tile[2048 + 256];
  const unsigned total = ((const unsigned*)w4)[row * 256 + t];
  places[t] = sum_to_here(total, sums, t) - total + counts[t * blocks];
  unsigned long long* to = (unsigned long long*)w2 + row * extent;
  for (long long first = begin; first < end; first += 2048) {
    const int count = end - first < 2048 ? (int)(end - first) : 2048;
    for (int i = t; i < 2048; i += 256) tile[i + i / 8] = i < count ? items[first + i] : ~0ull;
    __syncthreads();
    unsigned long long mine[8];
    for (int half = 0; half < 8; half += 4) {
      for (int k = 0; k < 8; ++k) mine[k] = tile[9 * t + k];
      for (int d = 0; d < 16; ++d) found[apart(d * 256 + t)] = 0;
      unsigned ranks[8];
      for (int k = 0; k < 8; ++k) {
        ranks[k] = found[apart((int)((mine[k] >> (shift + half)) & 15) * 256 + t)]++;
      }
      __syncthreads();
      // Threads add up what lies side by side: all of one digit before those of the next.
      unsigned sum = 0, before[16];
      for (int d = 0; d < 16; ++d) {
        before[d] = sum;
        sum += found[apart(16 * t + d)];
      }
      const unsigned left = sum_to_here(sum, sums, t) - sum;
      for (int d = 0; d < 16; ++d) found[apart(16 * t + d)] = left + before[d];
      __syncthreads();
      for (int k = 0; k < 8; ++k) {
        const unsigned i = 
            found[apart((int)((mine[k] >> (shift + half)) & 15) * 256 + t)] + ranks[k];
        tile[i + i / 8] = mine[k];
      }
      __syncthreads();
    }
    for (int i = t; i < count; i += 256) {
      const int digit = (int)(tile[i + i / 8] >> shift) & 255;
      if (i == 0 || ((int)(tile[i - 1 + (i - 1) / 8] >> shift) & 255) != digit) firsts[digit] = i;
    }
    __syncthreads();
    for (int i = t; i < count; i += 256) {
      const unsigned long long item = tile[i + i / 8];
      const int digit = (int)(item >> shift) & 255;
      to[places[digit] + i - firsts[digit]] = item;
    }
    __syncthreads();
    for (int i = t; i < count; i += 256) {
      const int digit = (int)(tile[i + i / 8] >> shift) & 255;
      const bool last =
          i + 1 == count || ((int)(tile[i + 1 + (i + 1) / 8] >> shift) & 255) != digit;
      if (last) places[digit] += i + 1 - firsts[digit];
    }
    __syncthreads();
  }
)";

int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

RadixSorter::RadixSorter(int64_t rows, int64_t extent, int key_bytes)
    : rows_(rows), extent_(extent), key_bytes_(key_bytes) {
  int64_t tiles = CeilDiv(extent, kTile);
  int64_t wanted = std::clamp<int64_t>(CeilDiv(kEnoughBlocks, rows), 1, kMostBlocks);
  share_ = CeilDiv(tiles, std::min(wanted, tiles)) * kTile;
  blocks_ = CeilDiv(extent, share_);
  items_bytes_ = Aligned(rows * extent * 8);
  counts_bytes_ = Aligned(rows * 256 * blocks_ * 4);
  totals_bytes_ = Aligned(rows * 256 * 4);
}

std::vector<KernelSource> RadixSorter::Sources() const {
  std::string share = kShare;
  return {BlockKernel(kWords, "", share + kCount), BlockKernel(kWords, kSums, kPlaces),
          BlockKernel(kWords, kSums, share + kMove)};
}

Address RadixSorter::Run(Machine& machine, std::span<const Function* const> functions,
                         Address scratch) const {
  Address from = scratch, to = from + static_cast<Address>(items_bytes_);
  Address counts = to + static_cast<Address>(items_bytes_);
  Address totals = counts + static_cast<Address>(counts_bytes_);
  int64_t blocks = rows_ * blocks_, values = rows_ * 256;
  for (int byte = 0; byte < key_bytes_; ++byte) {
    std::vector<uint64_t> words = {WordOf(blocks),
                                   from,
                                   to,
                                   counts,
                                   totals,
                                   WordOf(extent_),
                                   WordOf(share_),
                                   WordOf(blocks_),
                                   WordOf(32 + 8 * byte)};
    machine.Launch(*functions[0], BlockGrid(blocks), words);
    machine.Launch(*functions[1], BlockGrid(values), words);
    machine.Launch(*functions[2], BlockGrid(blocks), words);
    std::swap(from, to);
  }
  return from;
}

}  // namespace hammock::cuda
