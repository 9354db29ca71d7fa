// Compiled as scalar_loops.cpp is: each operation is rounded on its own.
#include "backends/cpu/calls/softmax_loops.h"

#include <algorithm>

#include "backends/cpu/host/cpu_features.h"
#include "compiler/scalar/scalar_bodies.h"
#include "hammock/compiler/kernel.h"

namespace hammock::cpu {
namespace {

constexpr int kLanes = compiler::kAccumulators;

HAMMOCK_BODY float Larger(float a, float b) { return a > b ? a : b; }

HAMMOCK_BODY float RunMax(int64_t count, const float* x, float least) {
  float largest[kLanes];
  for (int j = 0; j < kLanes; ++j) largest[j] = least;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) largest[j] = Larger(x[i + j], largest[j]);
  }
  for (int j = 0; i + j < count; ++j) largest[j] = Larger(x[i + j], largest[j]);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) largest[j] = Larger(largest[j + half], largest[j]);
  }
  return largest[0];
}

HAMMOCK_BODY float ExpOf(float x) {
  return compiler::Unary(ScalarFn::kExp, compiler::Number<float>{x}).value;
}

HAMMOCK_BODY float RunExpSum(int64_t count, float shift, float* x) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
#pragma GCC ivdep
    for (int j = 0; j < kLanes; ++j) {
      float power = ExpOf(x[i + j] - shift);
      x[i + j] = power;
      sums[j] += power;
    }
  }
  for (int j = 0; i + j < count; ++j) {
    x[i + j] = ExpOf(x[i + j] - shift);
    sums[j] += x[i + j];
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

HAMMOCK_BODY void RunScale(int64_t count, float factor, float* x) {
  for (int64_t i = 0; i < count; ++i) x[i] *= factor;
}

HAMMOCK_BODY void RunGradient(int64_t count, const float* weight, float delta, float* x) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) x[i] = weight[i] * (x[i] - delta);
}

/// All loops for one processor. `TARGET` is an attribute, or nothing.
#define HAMMOCK_LOOPS(Name, TARGET)                                                          \
  struct Name {                                                                              \
    TARGET static float Max(int64_t count, const float* x, float least) {                    \
      return RunMax(count, x, least);                                                        \
    }                                                                                        \
    TARGET static float ExpSum(int64_t count, float shift, float* x) {                       \
      return RunExpSum(count, shift, x);                                                     \
    }                                                                                        \
    TARGET static void Scale(int64_t count, float factor, float* x) {                        \
      RunScale(count, factor, x);                                                            \
    }                                                                                        \
    TARGET static void Gradient(int64_t count, const float* weight, float delta, float* x) { \
      RunGradient(count, weight, delta, x);                                                  \
    }                                                                                        \
    static constexpr SoftmaxLoops kLoops = {Max, ExpSum, Scale, Gradient};                   \
  };

HAMMOCK_FOR_PROCESSORS(HAMMOCK_LOOPS)
#undef HAMMOCK_LOOPS

}  // namespace

const SoftmaxLoops& SoftmaxLoopsHere() {
  auto loops = [](auto kind) -> const SoftmaxLoops& { return decltype(kind)::kLoops; };
  return HAMMOCK_VISIT_PROCESSOR(loops);
}

}  // namespace hammock::cpu
