#include "floors.h"

#include <sys/mman.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;
using Vector = float __attribute__((vector_size(64), aligned(64)));

constexpr int64_t kElements = kRows * kColumns;
constexpr int64_t kLanes = 16;
constexpr double kPassFlops = 5e7;
constexpr int kAccumulators = 12;  // enough to hide the latency of two units
constexpr int kUnroll = 4;         // a shorter loop is fetched at half the speed

float* NewBuffer() {
  size_t bytes = kElements * sizeof(float);
  void* memory =
      mmap(nullptr, bytes + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto start = (reinterpret_cast<uintptr_t>(memory) + (2 << 20) - 1) / (2 << 20) * (2 << 20);
  madvise(reinterpret_cast<void*>(start), bytes, MADV_HUGEPAGE);
  auto* floats = reinterpret_cast<float*>(start);
  for (int64_t i = 0; i < kElements; ++i) floats[i] = 1;
  return floats;
}

struct Buffers {
  Vector* x = reinterpret_cast<Vector*>(NewBuffer());
  Vector* r = reinterpret_cast<Vector*>(NewBuffer());
  Vector* y = reinterpret_cast<Vector*>(NewBuffer());
};

/// Past the caches, so that the line is not read before it is written.
inline void Store(Vector* to, Vector value) {
#ifdef __AVX512F__
  _mm512_stream_ps(reinterpret_cast<float*>(to), reinterpret_cast<__m512>(value));
#else
  *to = value;
#endif
}

inline void Keep(Vector& value) { asm volatile("" : "+m"(value)); }

/// Element by element, so that the sums can be in registers.
inline void KeepAll(const Vector (&sums)[kAccumulators]) {
  Vector total = {};
#pragma GCC unroll 12
  for (int k = 0; k < kAccumulators; ++k) total += sums[k];
  Keep(total);
}

void Add(const Buffers& b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) Store(b.y + i, b.x[i] + b.r[i]);
}

/// Both fit into the caches.
void Copy(const Buffers& b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) b.y[i] = b.x[i];
}

void Read(const Buffers& b, int64_t begin, int64_t end) {
  Vector sum[4] = {};
  for (int64_t i = begin; i + 4 <= end; i += 4) {
    for (int k = 0; k < 4; ++k) sum[k] += b.x[i + k];
  }
  for (Vector& s : sum) Keep(s);
}

/// Fused multiply-adds of 16 lanes.
void Multiply(int64_t iterations) {
  Vector a = {}, b = {}, sum[kAccumulators] = {};
  Keep(a), Keep(b);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 48
    for (int k = 0; k < kUnroll * kAccumulators; ++k) {
      Vector& to = sum[k % kAccumulators];
#ifdef __AVX512F__
      asm("vfmadd231ps %2, %1, %0" : "+v"(to) : "v"(a), "v"(b));
#else
      to += a * b;
#endif
    }
  }
  KeepAll(sum);
}

#ifdef __AVX512BF16__
/// The same with pairs of bf16: 32 multiply-adds each.
void MultiplyBf16(int64_t iterations) {
  Vector a = {}, b = {}, sum[kAccumulators] = {};
  Keep(a), Keep(b);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 48
    for (int k = 0; k < kUnroll * kAccumulators; ++k) {
      asm("vdpbf16ps %2, %1, %0" : "+v"(sum[k % kAccumulators]) : "v"(a), "v"(b));
    }
  }
  KeepAll(sum);
}
#endif

/// One thread's part of a pass.
void Part(Floor floor, double flops, const Buffers& buffers, int thread, int threads) {
  int64_t count = kElements / kLanes / threads, begin = thread * count;
  double per_iteration = 2.0 * kLanes * kAccumulators * kUnroll;
  switch (floor) {
    case Floor::kAdd:
      return Add(buffers, begin, begin + count);
    case Floor::kCopy:
      return Copy(buffers, begin, begin + count);
    case Floor::kRead:
      return Read(buffers, begin, begin + count);
    case Floor::kFma:
      return Multiply(static_cast<int64_t>(flops / per_iteration / threads));
    case Floor::kFmaBf16:
#ifdef __AVX512BF16__
      return MultiplyBf16(static_cast<int64_t>(flops / per_iteration / 2 / threads));
#endif
    case Floor::kNone:
      return;
  }
}

}  // namespace

void MeasureFloor(Floor floor, double flops, int threads, double budget,
                  std::vector<double>& times) {
  static const Buffers buffers;
#ifndef __AVX512BF16__
  if (floor == Floor::kFmaBf16) return;
#endif
  std::atomic<int64_t> pass{0}, done{0};
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) {
    others.emplace_back([&, thread] {
      for (int64_t seen = 0;;) {
        int64_t now = pass.load(std::memory_order_acquire);
        if (now < 0) return;
        if (now == seen) continue;
        seen = now;
        Part(floor, flops, buffers, thread, threads);
        done.fetch_add(1, std::memory_order_release);
      }
    });
  }
  // Arithmetic of any length runs at one speed: short passes are hit by less noise.
  double whole = std::max(flops / kPassFlops, 1.0);
  flops /= whole;
  auto end = Clock::now() + std::chrono::duration<double>(budget);
  for (int64_t i = 1; i <= 4 || Clock::now() < end; ++i) {
    auto start = Clock::now();
    pass.store(i, std::memory_order_release);
    Part(floor, flops, buffers, 0, threads);
    while (done.load(std::memory_order_acquire) < i * (threads - 1)) {
    }
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (i > 2) times.push_back(seconds * whole);
  }
  pass.store(-1, std::memory_order_release);
  for (std::thread& other : others) other.join();
}

}  // namespace bench
