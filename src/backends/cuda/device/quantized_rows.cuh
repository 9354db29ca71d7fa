#pragma once
// Matmuls of a few rows with a quantised matrix, transposed.
//
// Note [Quantised rows on a GPU]
// A warp has a row of weights, and its lanes chunks of 16 bytes of it, which belong to one group
// each. An element becomes a float without a conversion: its bits are the lowest bits of the
// mantissa of a power of two, which is subtracted together with the zero point, exactly. Sums of
// a chunk have an accumulator for each place of an element in a half word; chunks of a lane are
// summed in order, and the lanes as a tree. So the order depends on k alone.
//
// `Kind` has the types Element and Scale, value(Element), scale(Scale) and result(float), and the
// constants kBits and kSigned of weights, kZeroBits (0: none) and kZeroSigned of zero points,
// kColumns (rows of x) and kGroup (chunks that share a scale; 0: the row does).

#include "backends/cuda/device/kernel.cuh"
#include "backends/cuda/device/quantized_rows_args.h"

namespace hammock::cuda {

// Element `i` of integers of `kBits`.
template <int kBits, bool kSigned>
__device__ __forceinline__ int integer_at(const void* from, int64_t i) {
  const int byte = ((const unsigned char*)from)[i * kBits / 8];
  const int value = byte >> (int)(i * kBits % 8) & ((1 << kBits) - 1);
  return kSigned ? (value ^ 1 << (kBits - 1)) - (1 << (kBits - 1)) : value;
}

// The places of elements in a half word.
template <class Kind>
struct Places {
  static constexpr int kCount = 16 / Kind::kBits;
  static constexpr int kSign = Kind::kSigned ? 1 << (Kind::kBits - 1) : 0;

  // The power of two whose unit in the last place is bit kBits * place.
  __device__ static constexpr int power(int place) { return 23 - Kind::kBits * place; }
  // The float of an element whose value is its zero point, `zero`.
  __device__ static __forceinline__ float offset(int place, int zero) {
    return (float)((1 << power(place)) + kSign + zero);
  }
  __device__ static __forceinline__ float value(unsigned bits, int place, float offset) {
    const unsigned mask = ((1u << Kind::kBits) - 1) << (Kind::kBits * place);
    const unsigned flips = (unsigned)(127 + power(place)) << 23 | (unsigned)kSign
                                                                      << (Kind::kBits * place);
    return __int_as_float((int)((bits & mask) ^ flips)) - offset;
  }
};

template <class Kind>
__device__ __forceinline__ void quantized_rows(
    const QuantizedRowsArgs<typename Kind::Element, typename Kind::Scale>& args) {
  using Element = typename Kind::Element;
  using Place = Places<Kind>;
  constexpr int kChunk = 128 / Kind::kBits, kAhead = 4;
  const int lane = threadIdx.x % 32, chunks = (int)(args.k / kChunk);
  const int64_t mine = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
  const int64_t row = mine < args.n ? mine : args.n - 1, groups = row * args.scale_row;
  const Words<16>* weight = (const Words<16>*)args.weight + row * chunks;
  auto group_of = [&](int chunk) { return groups + (Kind::kGroup > 0 ? chunk / Kind::kGroup : 0); };
  float sums[Kind::kColumns] = {};
  for (int first = lane; first < chunks; first += 32 * kAhead) {
    // All loads from memory, before the first one is waited for.
    Words<16> words[kAhead];
    float scales[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int chunk = first + 32 * a;
      if (chunk >= chunks) continue;
      words[a] = weight[chunk];
      if constexpr (Kind::kGroup > 0) scales[a] = Kind::scale(args.scale[group_of(chunk)]);
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int chunk = first + 32 * a;
      if (chunk >= chunks) continue;
      int zero = 0;
      if constexpr (Kind::kZeroBits > 0) {
        zero = integer_at<Kind::kZeroBits, Kind::kZeroSigned>(args.zero, group_of(chunk));
      }
      float values[kChunk];
#pragma unroll
      for (int e = 0; e < kChunk; ++e) {
        const int place = e % Place::kCount, half = e / Place::kCount;
        values[e] = Place::value(words[a].x[half / 2] >> (half % 2 * 16), place,
                                 Place::offset(place, zero));
      }
#pragma unroll
      for (int m = 0; m < Kind::kColumns; ++m) {
        Element x[kChunk];
        load_wide<kChunk>(args.x + m * args.k + (int64_t)chunk * kChunk, x);
        float parts[Place::kCount] = {};
#pragma unroll
        for (int e = 0; e < kChunk; ++e) {
          float& part = parts[e % Place::kCount];
          part = fmaf(values[e], Kind::value(x[e]), part);
        }
        float sum = parts[0];
#pragma unroll
        for (int p = 1; p < Place::kCount; ++p) sum += parts[p];
        sums[m] = Kind::kGroup > 0 ? fmaf(sum, scales[a], sums[m]) : sums[m] + sum;
      }
    }
  }
#pragma unroll
  for (int m = 0; m < Kind::kColumns; ++m) {
    float sum = sums[m];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += shuffle_xor(sum, step);
    if (lane > 0 || mine >= args.n) continue;
    if constexpr (Kind::kGroup == 0) sum *= Kind::scale(args.scale[groups]);
    if (args.bias) sum += Kind::value(args.bias[row]);
    args.out[m * args.n + row] = Kind::result(sum);
  }
}

}  // namespace hammock::cuda
