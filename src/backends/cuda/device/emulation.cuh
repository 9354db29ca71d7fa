#pragma once
// The beginning of modules that run on the host: CUDA's keywords, variables and functions.

#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
struct EmulatedThread {
  struct Dim {
    unsigned x, y, z;
  };
  Dim thread, block, block_dim, grid_dim;
  void (*wait)();
  unsigned long (*exchange)(unsigned long value, int source);
};
static EmulatedThread* emulated;
extern "C" void set_emulated(EmulatedThread* thread) { emulated = thread; }
#define threadIdx (emulated->thread)
#define blockIdx (emulated->block)
#define blockDim (emulated->block_dim)
#define gridDim (emulated->grid_dim)
#define __syncthreads() emulated->wait()
#define __threadfence()

#define fmaf __builtin_fmaf
#define fma __builtin_fma
#define sqrtf __builtin_sqrtf
#define sqrt __builtin_sqrt
#define floorf __builtin_floorf
#define floor __builtin_floor
#define ceilf __builtin_ceilf
#define ceil __builtin_ceil
#define truncf __builtin_truncf
#define trunc __builtin_trunc
#define rintf __builtin_rintf
#define rint __builtin_rint
#define fmaxf __builtin_fmaxf
#define exp2f __builtin_exp2f
#define log2f __builtin_log2f
#define fabsf __builtin_fabsf
#define fabs __builtin_fabs
#define copysignf __builtin_copysignf
#define copysign __builtin_copysign
#define fmod __builtin_fmod
#define lgamma __builtin_lgamma
#define exp __builtin_exp
#define expm1 __builtin_expm1
#define log __builtin_log
#define log1p __builtin_log1p
#define erf __builtin_erf
#define erfc __builtin_erfc
#define tan __builtin_tan
#define pow __builtin_pow
#define fmin __builtin_fmin
#define fmax __builtin_fmax

template <class To, class From>
static inline To bits_as(From x) {
  return __builtin_bit_cast(To, x);
}
static inline int __float_as_int(float x) { return bits_as<int>(x); }
static inline float __int_as_float(int x) { return bits_as<float>(x); }
static inline long long __double_as_longlong(double x) { return bits_as<long long>(x); }
static inline double __longlong_as_double(long long x) { return bits_as<double>(x); }

template <class T>
static T exchanged(T x, int source) {
  unsigned long value = 0;
  __builtin_memcpy(&value, &x, sizeof x);
  value = emulated->exchange(value, source);
  __builtin_memcpy(&x, &value, sizeof x);
  return x;
}
static inline int thread_number() { return (int)(threadIdx.y * blockDim.x + threadIdx.x); }
template <class T>
static T __shfl_xor_sync(unsigned, T x, int mask) {
  return exchanged(x, thread_number() ^ mask);
}
template <class T>
static T __shfl_up_sync(unsigned, T x, int lanes) {
  int me = thread_number();
  return exchanged(x, me % 32 >= lanes ? me - lanes : me);
}
template <class T>
static T __shfl_sync(unsigned, T x, int lane, int width) {
  return exchanged(x, thread_number() / width * width + lane);
}
static inline void __syncwarp() { emulated->wait(); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static unsigned matched[1024];
static inline unsigned __match_any_sync(unsigned, unsigned x) {
  int me = thread_number();
  matched[me] = x;
  emulated->wait();
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (matched[me / 32 * 32 + lane] == x) same |= 1u << lane;
  }
  emulated->wait();
  return same;
}
template <class T>
static inline T atomicAdd(T* at, T value) {
  T old = *at;
  *at = old + value;
  return old;
}
template <class T>
static inline T atomicMin(T* at, T value) {
  T old = *at;
  if (value < old) *at = value;
  return old;
}
template <class T>
static inline T atomicMax(T* at, T value) {
  T old = *at;
  if (value > old) *at = value;
  return old;
}
