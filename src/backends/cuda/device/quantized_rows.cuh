#pragma once
// Matmuls of a few rows with a quantised matrix, transposed.
//
// Note [Quantised rows on a GPU]
// A warp has some rows of weights, and its lanes chunks of 16 bytes of them, which belong to one
// group each. An element becomes a float without a conversion: its bits are the lowest bits of the
// mantissa of a power of two, which is subtracted together with the zero point, exactly. Sums of
// a chunk have an accumulator for each place of an element in a half word; chunks of a lane are
// summed in order, and the lanes as a tree. So the order depends on k alone.
//
// `Kind` has the types Element and Scale, value(Element), scale(Scale) and result(float), and the
// constants kBits and kSigned of weights, kZeroBits (0: none) and kZeroSigned of zero points,
// kColumns (rows of x), kRows (rows of weights of a warp) and kGroup (chunks that share a scale;
// 0: the row does).

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
  constexpr int kChunk = 128 / Kind::kBits;
  const int lane = threadIdx.x % 32, chunks = (int)(args.k / kChunk);
  const int64_t first = ((int64_t)blockIdx.x * 8 + threadIdx.x / 32) * Kind::kRows;
  const Words<16>* weight[Kind::kRows];
  int64_t scales[Kind::kRows];
  float sums[Kind::kRows][Kind::kColumns];
#pragma unroll
  for (int r = 0; r < Kind::kRows; ++r) {
    const int64_t row = first + r < args.n ? first + r : args.n - 1;
    weight[r] = (const Words<16>*)args.weight + row * chunks;
    scales[r] = row * args.scale_row;
#pragma unroll
    for (int m = 0; m < Kind::kColumns; ++m) sums[r][m] = 0;
  }
#pragma unroll 4
  for (int chunk = lane; chunk < chunks; chunk += 32) {
    Words<16> words[Kind::kRows];
#pragma unroll
    for (int r = 0; r < Kind::kRows; ++r) words[r] = weight[r][chunk];
#pragma unroll
    for (int r = 0; r < Kind::kRows; ++r) {
      const int64_t group = scales[r] + (Kind::kGroup > 0 ? chunk / Kind::kGroup : 0);
      int zero = 0;
      if constexpr (Kind::kZeroBits > 0) {
        zero = integer_at<Kind::kZeroBits, Kind::kZeroSigned>(args.zero, group);
      }
      float values[kChunk];
#pragma unroll
      for (int e = 0; e < kChunk; ++e) {
        const int place = e % Place::kCount, half = e / Place::kCount;
        values[e] = Place::value(words[r].x[half / 2] >> (half % 2 * 16), place,
                                 Place::offset(place, zero));
      }
      const float scale = Kind::kGroup > 0 ? Kind::scale(args.scale[group]) : 1.0f;
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
        sums[r][m] = Kind::kGroup > 0 ? fmaf(sum, scale, sums[r][m]) : sums[r][m] + sum;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < Kind::kRows; ++r) {
#pragma unroll
    for (int m = 0; m < Kind::kColumns; ++m) {
      float sum = sums[r][m];
#pragma unroll
      for (int step = 16; step > 0; step /= 2) sum += shuffle_xor(sum, step);
      if (lane > 0 || first + r >= args.n) continue;
      if (Kind::kGroup == 0) sum *= Kind::scale(args.scale[scales[r]]);
      if (args.bias) sum += Kind::value(args.bias[first + r]);
      args.out[m * args.n + first + r] = Kind::result(sum);
    }
  }
}

}  // namespace hammock::cuda
