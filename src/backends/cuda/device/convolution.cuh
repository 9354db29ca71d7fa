#pragma once
// Convolutions that no library has. `Kind` has the types Element and Sum, value(element),
// result(sum) and constants:
//   kDims                                        of an image
//   kInput[], kWeight[], kOut[]                  sizes [images, channels, positions...]
//   kStride[], kPadding[], kDilation[], kGroups
//   kTransposed

#include "backends/cuda/device/convolution_args.h"
#include "backends/cuda/device/kernel.cuh"

namespace hammock::cuda {

// The number of positions of an image.
template <int kRank>
__device__ constexpr int64_t positions_of(const int64_t (&sizes)[kRank]) {
  int64_t count = 1;
  for (int d = 2; d < kRank; ++d) count *= sizes[d];
  return count;
}

// A list of sizes as a type, since device code has no arrays of constants.
template <class Kind>
struct OutSizes {
  template <int kDim>
  static constexpr int64_t kSize = Kind::kOut[kDim + 2];
};
template <class Kind>
struct WeightSizes {
  template <int kDim>
  static constexpr int64_t kSize = Kind::kWeight[kDim + 2];
};

// Divides `rest` into coordinates, the last dim first.
template <class Sizes, int kDim>
__device__ __forceinline__ void coordinates_of(int64_t& rest, int64_t* at) {
  constexpr int64_t kSize = Sizes::template kSize<kDim>;
  at[kDim] = rest % kSize;
  rest /= kSize;
  if constexpr (kDim > 0) coordinates_of<Sizes, kDim - 1>(rest, at);
}

// Adds the products of the taps of a channel in dims from kDim on.
template <class Kind, int kDim>
__device__ __forceinline__ void add_taps(typename Kind::Sum& sum,
                                         const typename Kind::Element* plane,
                                         const typename Kind::Element* taps, const int64_t* out,
                                         int64_t position, int64_t tap) {
  if constexpr (kDim == Kind::kDims) {
    sum += (typename Kind::Sum)(Kind::value(plane[position])) *
           (typename Kind::Sum)(Kind::value(taps[tap]));
  } else {
    constexpr int64_t kStride = Kind::kStride[kDim], kDilation = Kind::kDilation[kDim];
    constexpr int64_t kPadding = Kind::kPadding[kDim], kIn = Kind::kInput[kDim + 2];
    constexpr int64_t kTaps = Kind::kWeight[kDim + 2];
    for (int64_t t = 0; t < kTaps; ++t) {
      int64_t p;
      if constexpr (Kind::kTransposed) {
        const int64_t q = out[kDim] + kPadding - t * kDilation;
        p = q / kStride;
        if (q < 0 || q % kStride != 0 || p >= kIn) continue;
      } else {
        p = out[kDim] * kStride + t * kDilation - kPadding;
        if (p < 0 || p >= kIn) continue;
      }
      add_taps<Kind, kDim + 1>(sum, plane, taps, out, position * kIn + p, tap * kTaps + t);
    }
  }
}

// One thread for each element of the result.
template <class Kind>
__device__ __forceinline__ void convolve(const ConvolutionArgs<typename Kind::Element>& args) {
  constexpr int64_t kGroups = Kind::kGroups, kChannels = Kind::kOut[1];
  constexpr int64_t kOutGroup = kChannels / kGroups, kInGroup = Kind::kInput[1] / kGroups;
  constexpr int64_t kInputs = Kind::kInput[1], kPositions = positions_of(Kind::kInput);
  constexpr int64_t kTaps = positions_of(Kind::kWeight);
  const int64_t i = element_index();
  if (i >= args.count) return;
  int64_t rest = i, out[Kind::kDims];
  coordinates_of<OutSizes<Kind>, Kind::kDims - 1>(rest, out);
  const int64_t channel = rest % kChannels, image = rest / kChannels, group = channel / kOutGroup;
  typename Kind::Sum sum = 0;
  for (int64_t c = 0; c < kInGroup; ++c) {
    const typename Kind::Element* plane =
        args.a + (image * kInputs + group * kInGroup + c) * kPositions;
    const typename Kind::Element* taps =
        args.b + (Kind::kTransposed ? (group * kInGroup + c) * kOutGroup + channel % kOutGroup
                                    : channel * kInGroup + c) *
                     kTaps;
    add_taps<Kind, 0>(sum, plane, taps, out, 0, 0);
  }
  args.out[i] = Kind::result(sum);
}

// The element of the input that a tap reads for a position of the result, in dims up to kDim; false
// in the padding.
template <class Kind, int kDim>
__device__ __forceinline__ bool input_of(int64_t position, const int64_t* tap, int64_t step,
                                         int64_t& at) {
  constexpr int64_t kOut = Kind::kOut[kDim + 2], kIn = Kind::kInput[kDim + 2];
  constexpr int64_t kStride = Kind::kStride[kDim], kDilation = Kind::kDilation[kDim];
  constexpr int64_t kPadding = Kind::kPadding[kDim];
  const int64_t p = position % kOut * kStride + tap[kDim] * kDilation - kPadding;
  at += p * step;
  bool inside = p >= 0 && p < kIn;
  if constexpr (kDim > 0) {
    inside = input_of<Kind, kDim - 1>(position / kOut, tap, step * kIn, at) && inside;
  }
  return inside;
}

// A block for each weight: each thread sums every 256th position of the result, then the block sums
// over its threads.
template <class Kind>
__device__ __forceinline__ void convolve_weight(
    const ConvolutionArgs<typename Kind::Element>& args) {
  constexpr int64_t kChannels = Kind::kWeight[1], kEach = Kind::kWeight[0] / Kind::kGroups;
  constexpr int64_t kOutputs = Kind::kOut[1], kInputs = Kind::kInput[1];
  constexpr int64_t kPositions = positions_of(Kind::kOut), kAll = Kind::kOut[0] * kPositions;
  constexpr int64_t kInputPositions = positions_of(Kind::kInput);
  const int64_t block = blockIdx.x;
  const int t = threadIdx.x;
  int64_t rest = block, tap[Kind::kDims];
  coordinates_of<WeightSizes<Kind>, Kind::kDims - 1>(rest, tap);
  const int64_t channel = rest / kChannels, from = channel / kEach * kChannels + rest % kChannels;
  typename Kind::Sum sum = 0;
  for (int64_t i = t; i < kAll; i += 256) {
    const int64_t image = i / kPositions, position = i % kPositions;
    int64_t at = 0;
    const bool inside = input_of<Kind, Kind::kDims - 1>(position, tap, 1, at);
    at += (image * kInputs + from) * kInputPositions;
    if (inside) {
      sum += Kind::value(args.a[(image * kOutputs + channel) * kPositions + position]) *
             Kind::value(args.b[at]);
    }
  }
  __shared__ typename Kind::Sum sums[256];
  sums[t] = sum;
  __syncthreads();
  for (int half = 128; half >= 1; half /= 2) {
    if (t < half) sums[t] += sums[t + half];
    __syncthreads();
  }
  if (t == 0) args.out[block] = Kind::result(sums[0]);
}

}  // namespace hammock::cuda
