// Matmuls and convolutions of the CPU backend against what this processor can do at most,
// measured in the same run; and what it costs to open a parallel region.
//
//   matmul_bench [threads]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "backends/cpu/host/host_allocator.h"
#include "backends/cpu/host/thread_pool.h"
#include "backends/cpu/matmul/matmul.h"
#include "hammock/config.h"

namespace hammock::cpu {
namespace {

ThreadPool& Pool() { return ThreadPool::Get(); }

HostAllocator& Memory() {
  static auto& memory = *new HostAllocator("bench");
  return memory;
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What is measured: with one thread the time that it runs, whatever else the machine does.
double Stopwatch() {
  if (ThreadPool::threads() > 1) return Now();
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The best time of one call of `f`, in seconds, over a third of a second.
template <class F>
double Best(F f) {
  f();
  double once = Stopwatch();
  f();
  once = Stopwatch() - once;
  int calls = std::clamp(static_cast<int>(50e-6 / std::max(once, 1e-9)), 1, 10000);
  double best = 1e9;
  for (double end = Now() + 0.35; Now() < end;) {
    double start = Stopwatch();
    for (int i = 0; i < calls; ++i) f();
    best = std::min(best, (Stopwatch() - start) / calls);
  }
  return best;
}

typedef float Lanes __attribute__((vector_size(64)));

/// Multiplies and adds in registers: 2 * 16 * 12 * `turns` operations.
[[gnu::target_clones("avx512f", "arch=haswell", "default")]] float MultiplyAdd(int64_t turns) {
  Lanes sums[12] = {};
  for (int j = 0; j < 12; ++j) sums[j] += static_cast<float>(j);
  Lanes x = {}, y = {};
  x += 0.5f;
  y += 1.0f;
  for (int64_t i = 0; i < turns; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) sums[j] = sums[j] * x + y;
  }
  Lanes sum = {};
  for (const Lanes& lane : sums) sum += lane;
  return sum[0];
}

/// GFLOP/s of f32 that all threads reach together.
double Peak() {
  constexpr int64_t kTurns = 200000;
  int threads = ThreadPool::threads();
  std::atomic<float> sink{0};
  double seconds = Best(
      [&] { Pool().ForEachChunk(threads, [&](int64_t, int) { sink = MultiplyAdd(kTurns); }); });
  return 2.0 * 16 * 12 * kTurns * threads / seconds * 1e-9;
}

/// Small numbers of any 16- or 32-bit float.
HostTensor Filled(const Shape& shape) {
  HostTensor tensor = Memory().New(shape, "bench");
  if (shape.dtype() == f32) {
    float* values = static_cast<float*>(tensor.mutable_data());
    for (int64_t i = 0; i < shape.numel(); ++i)
      values[i] = static_cast<float>(i % 13) * 0.1f - 0.6f;
  } else {
    uint16_t* bits = static_cast<uint16_t*>(tensor.mutable_data());
    for (int64_t i = 0; i < shape.numel(); ++i) bits[i] = static_cast<uint16_t>(0x3e00 + i % 64);
  }
  return tensor;
}

std::span<std::byte> Bytes(HostTensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data()), static_cast<size_t>(tensor.bytes())};
}

void Report(const std::string& what, const char* kernel, double flops, double seconds,
            double peak) {
  double rate = flops / seconds * 1e-9;
  fmt::print("{:<34} {:<7} {:>9.1f} us {:>7.1f} GFLOP/s {:>5.0f} %\n", what, kernel, seconds * 1e6,
             rate, rate / peak * 100);
}

/// Which operand lies transposed: as weights do in a forward matmul, results in that of gradients.
enum class Transposed { kNone, kA, kB };

void MeasureMatMul(DType dtype, int64_t m, int64_t k, int64_t n, bool packed, double peak,
                   Transposed transposed = Transposed::kNone) {
  MatMulSpec spec = MatMulSpec::Plain(dtype, m, k, n);
  if (transposed == Transposed::kA) spec.a.row = 1, spec.a.column = m;
  if (transposed == Transposed::kB) spec.b.row = 1, spec.b.column = k;
  MatMul matmul(spec);
  if (packed && matmul.packed_bytes() == 0) return;
  HostTensor a = Filled(Shape(dtype, {m, k})), b = Filled(Shape(dtype, {k, n}));
  HostTensor out = Memory().New(Shape(dtype, {m, n}), "bench");
  HostTensor scratch =
      Memory().New(Shape(u8, {matmul.scratch_bytes(ThreadPool::threads())}), "bench");
  HostTensor packed_b = Memory().New(Shape(u8, {matmul.packed_bytes()}), "bench");
  if (packed) matmul.Pack(b.data(), packed_b.mutable_data(), Pool());
  MatMul::Pointers pointers = {.a = a.data(),
                               .b = b.data(),
                               .packed = packed ? packed_b.data() : nullptr,
                               .out = out.mutable_data()};
  double seconds = Best([&] { matmul.Run(pointers, Bytes(scratch), Pool()); });
  constexpr const char* kNames[] = {"", " a^T", " b^T"};
  Report(fmt::format("matmul {} {}x{}x{}{}{}", NameOf(dtype), m, k, n,
                     kNames[static_cast<int>(transposed)], packed ? " packed" : ""),
         matmul.kernel(), 2.0 * m * k * n, seconds, peak);
}

void MeasureConvolution(DType dtype, int64_t images, int64_t in, int64_t size, int64_t out,
                        int64_t kernel, int64_t stride, double peak) {
  int64_t padding = kernel / 2;
  ConvolutionSpec spec = ConvolutionSpec::Of(
      Shape(dtype, {images, in, size, size}), Shape(dtype, {out, in, kernel, kernel}),
      {stride, stride}, {padding, padding}, {1, 1}, false, {0, 0}, 1);
  Convolution convolution(spec);
  HostTensor input = Filled(spec.input), weight = Filled(spec.weight);
  HostTensor result = Memory().New(spec.out, "bench");
  HostTensor scratch =
      Memory().New(Shape(u8, {convolution.scratch_bytes(ThreadPool::threads())}), "bench");
  Convolution::Pointers pointers = {
      .input = input.data(), .weight = weight.data(), .out = result.mutable_data()};
  double seconds = Best([&] { convolution.Run(pointers, Bytes(scratch), Pool()); });
  Report(fmt::format("conv {} {}x{}/{} {}->{} @{} b{}", NameOf(dtype), kernel, kernel, stride, in,
                     out, size, images),
         convolution.kernel(), 2.0 * spec.out.numel() * in * kernel * kernel, seconds, peak);
}

void Measure() {
  int threads = ThreadPool::threads();
  double region = Best([&] { Pool().ForEachChunk(threads, [](int64_t, int) {}); });
  double peak = Peak();
  fmt::print("{} threads: region {:.2f} us, peak {:.0f} GFLOP/s of f32\n", threads, region * 1e6,
             peak);
  for (DType dtype : {f32, bf16}) {
    for (int64_t size : {8, 16, 32, 64, 128, 256, 512, 1024}) {
      for (bool packed : {false, true}) MeasureMatMul(dtype, size, size, size, packed, peak);
    }
    for (auto [m, k, n] : {std::array<int64_t, 3>{128, 784, 512},
                           {1024, 512, 2048},
                           {8, 4096, 4096},
                           {1, 4096, 4096}}) {
      for (bool packed : {false, true}) MeasureMatMul(dtype, m, k, n, packed, peak);
    }
  }
  MeasureMatMul(f32, 128, 784, 512, false, peak, Transposed::kB);
  MeasureMatMul(f32, 128, 512, 512, false, peak, Transposed::kB);
  MeasureMatMul(f32, 512, 128, 784, false, peak, Transposed::kA);
  MeasureMatMul(f32, 512, 128, 512, false, peak, Transposed::kA);
  MeasureMatMul(f64, 512, 512, 512, false, peak);
  MeasureMatMul(f16, 512, 512, 512, false, peak);
  for (DType dtype : {f32, bf16}) {
    MeasureConvolution(dtype, 8, 64, 56, 64, 3, 1, peak);
    MeasureConvolution(dtype, 8, 3, 224, 64, 7, 2, peak);
    MeasureConvolution(dtype, 1, 64, 56, 64, 3, 1, peak);
    MeasureConvolution(dtype, 8, 64, 56, 64, 1, 1, peak);
    MeasureConvolution(dtype, 8, 256, 14, 256, 3, 1, peak);
    MeasureConvolution(dtype, 8, 1, 28, 32, 5, 1, peak);
  }
}

}  // namespace
}  // namespace hammock::cpu

int main(int argc, char** argv) {
  using namespace hammock;
  if (argc > 1) {
    config::Set("cpu.threads", argv[1]);
    cpu::Measure();
    return 0;
  }
  for (const char* threads : {"1", "0"}) {
    config::Set("cpu.threads", threads);
    cpu::Measure();
  }
}
