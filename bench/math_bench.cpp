// Nanoseconds an element of each scalar function, on one thread and in the cache: compiled code,
// the interpreter's loop, and the C library called lane by lane.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <initializer_list>

#include "backends/cpu/interpret/lane_functions.h"
#include "backends/cpu/interpret/scalar_loops.h"
#include "compiler/scalar/scalar_kernels.h"

namespace hammock::cpu {
namespace {

constexpr int64_t kCount = 4096;

bool IsOneOf(ScalarFn fn, std::initializer_list<ScalarFn> others) {
  return std::find(others.begin(), others.end(), fn) != others.end();
}

/// Values in [-4, 4), or above 1 where functions need that.
template <class T>
std::vector<T> Values(ScalarFn fn) {
  using enum ScalarFn;
  double scale = IsOneOf(fn, {kAsin, kAcos, kAtan, kAtanh}) ? 0.2 : 1;
  bool needs_positive = IsOneOf(fn, {kLog, kLog2, kLog10, kLog1p, kPow, kAcosh});
  std::vector<T> x(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    double value = scale * (static_cast<double>(i * 7919 % kCount) / kCount * 8 - 4);
    x[i] = static_cast<T>(needs_positive ? std::abs(value) + 1.01 : value);
  }
  return x;
}

template <class T, class Call>
void Measure(benchmark::State& state, ScalarFn fn, Call call) {
  std::vector<T> x = Values<T>(fn), out(kCount);
  for (auto _ : state) {
    call(x.data(), out.data());
    benchmark::ClobberMemory();
  }
  state.counters["ns/element"] = benchmark::Counter(
      1e-9 * kCount, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

template <class T>
void CallLanes(ScalarFn fn, DType dtype, const T* x, T* out) {
  if (IsBinary(fn)) {
    LaneBinary f = LaneBinaryFor(fn, dtype);
    for (int64_t i = 0; i < kCount; ++i) out[i] = static_cast<T>(f(x[i], x[i]));
  } else {
    LaneUnary f = LaneUnaryFor(fn, dtype);
    for (int64_t i = 0; i < kCount; ++i) out[i] = static_cast<T>(f(x[i]));
  }
}

template <class T>
void Register(DType dtype, const LoadedCode* code) {
  for (ScalarFn fn : FunctionsOf(dtype)) {
    if (!LaneUnaryFor(fn, dtype) && !LaneBinaryFor(fn, dtype)) continue;
    std::string name = std::string(NameOf(fn)) + "/" + std::string(NameOf(dtype));
    if (code) {
      auto* loop = code->Function<CompiledLoop>(LoopName(fn));
      benchmark::RegisterBenchmark((name + "/compiled").c_str(), [=](benchmark::State& state) {
        Measure<T>(state, fn, [&](const T* x, T* out) { loop(kCount, x, x, out); });
      });
    }
    benchmark::RegisterBenchmark((name + "/interpreted").c_str(), [=](benchmark::State& state) {
      Measure<T>(state, fn, [&](const T* x, T* out) {
        if (IsBinary(fn)) {
          BinaryLoopFor(fn, dtype)(kCount, x, x, out);
        } else {
          UnaryLoopFor(fn, dtype)(kCount, x, out);
        }
      });
    });
    benchmark::RegisterBenchmark((name + "/libm").c_str(), [=](benchmark::State& state) {
      Measure<T>(state, fn, [&](const T* x, T* out) { CallLanes<T>(fn, dtype, x, out); });
    });
  }
}

}  // namespace
}  // namespace hammock::cpu

int main(int argc, char** argv) {
  using namespace hammock;
  benchmark::Initialize(&argc, argv);
  bool has_llvm = cpu::LlvmCompiler::WhyAbsent().empty();
  auto f32_code = has_llvm ? cpu::CompileBodies(DType::kF32, 16) : nullptr;
  auto f64_code = has_llvm ? cpu::CompileBodies(DType::kF64, 8) : nullptr;
  cpu::Register<float>(DType::kF32, f32_code.get());
  cpu::Register<double>(DType::kF64, f64_code.get());
  benchmark::RunSpecifiedBenchmarks();
}
