#pragma once
/// Loops over a row of scores, for the instructions that this processor has. The order of sums
/// is that of Note [Reductions] in hammock/compiler/kernel.h.

#include <cstdint>

namespace hammock::cpu {

struct SoftmaxLoops {
  /// The largest of x[i] and `least`; NaNs are ignored.
  float (*max)(int64_t count, const float* x, float least);
  /// x[i] = exp(x[i] - shift); returns their sum.
  float (*exp_sum)(int64_t count, float shift, float* x);
  /// x[i] *= factor
  void (*scale)(int64_t count, float factor, float* x);
  /// x[i] = weight[i] * (x[i] - delta)
  void (*gradient)(int64_t count, const float* weight, float delta, float* x);
};

const SoftmaxLoops& SoftmaxLoopsHere();

}  // namespace hammock::cpu
