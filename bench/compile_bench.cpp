// What new machine code costs: compiled, from a cached blob, from a file.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <string>

#include "backends/cpu/code/code_cache.h"
#include "base/file_cache.h"

namespace hammock::cpu {
namespace {

/// y = f(x) over n floats, two vectors of 16 at a time; `body` gives lines that compute %v<k> from
/// %x<k> for each k.
template <class Body>
std::string Loop(Body body) {
  std::string ir = R"(
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define void @kernel(ptr noalias %x, ptr noalias %r, ptr noalias %y, i64 %n) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
)";
  for (int k = 0; k < 2; ++k) {
    ir += fmt::format(
        "  %i{0} = add nsw i64 %i, {1}\n"
        "  %px{0} = getelementptr inbounds float, ptr %x, i64 %i{0}\n"
        "  %pr{0} = getelementptr inbounds float, ptr %r, i64 %i{0}\n"
        "  %py{0} = getelementptr inbounds float, ptr %y, i64 %i{0}\n"
        "  %x{0} = load <16 x float>, ptr %px{0}, align 4\n"
        "  %r{0} = load <16 x float>, ptr %pr{0}, align 4\n",
        k, 16 * k);
    ir += body(k);
    ir += fmt::format("  store <16 x float> %v{0}, ptr %py{0}, align 4\n", k);
  }
  return ir + R"(
  %next = add nsw i64 %i, 32
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
)";
}

std::string Splat(double value) {
  return fmt::format("splat (float 0x{:016x})", std::bit_cast<uint64_t>(double(float(value))));
}

std::string Add() {
  return Loop([](int k) { return fmt::format("  %v{0} = fadd <16 x float> %x{0}, %r{0}\n", k); });
}

std::string Chain20() {
  return Loop([](int k) {
    std::string lines, last = fmt::format("%x{}", k);
    for (int i = 0; i < 20; ++i) {
      std::string name = i == 19 ? fmt::format("%v{}", k) : fmt::format("%t{}_{}", k, i);
      lines +=
          fmt::format("  {} = {} <16 x float> {}, %r{}\n", name, i % 2 ? "fmul" : "fadd", last, k);
      last = name;
    }
    return lines;
  });
}

/// As much arithmetic as an activation with an exponential: two polynomials and a division.
std::string Polynomials() {
  return Loop([](int k) {
    std::string lines;
    for (const char* part : {"p", "q"}) {
      std::string last = Splat(0.5);
      for (int i = 0; i < 12; ++i) {
        std::string name = fmt::format("%{}{}_{}", part, k, i);
        lines += fmt::format(
            "  {} = call <16 x float> @llvm.fma.v16f32(<16 x float> {}, <16 x float> %x{}, "
            "<16 x float> {})\n",
            name, last, k, Splat((*part == 'p' ? 1.0 : 2.0) / (i + 3)));
        last = name;
      }
    }
    return lines + fmt::format(
                       "  %d{0} = fdiv <16 x float> %p{0}_11, %q{0}_11\n"
                       "  %v{0} = fadd <16 x float> %d{0}, %r{0}\n",
                       k);
  });
}

bool Skip(benchmark::State& state) {
  std::string reason = LlvmCompiler::WhyAbsent();
  if (!reason.empty()) state.SkipWithError(reason.c_str());
  return !reason.empty();
}

void FirstOpen(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(LlvmCompiler::WhyAbsent());
}
BENCHMARK(FirstOpen)->Iterations(1)->Unit(benchmark::kMillisecond);

void NewKernel(benchmark::State& state, std::string (*emit)(), Effort effort) {
  if (Skip(state)) return;
  std::string ir = emit();
  for (auto _ : state) LoadedCode code(CompileCode(ir, {.effort = effort}));
  state.SetLabel(fmt::format("{} bytes of code", CompileCode(ir, {.effort = effort}).image.size()));
}
BENCHMARK_CAPTURE(NewKernel, add, Add, Effort::kNormal)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(NewKernel, chain20, Chain20, Effort::kNormal)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(NewKernel, polynomials, Polynomials, Effort::kNormal)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(NewKernel, polynomials_quick, Polynomials, Effort::kQuick)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(NewKernel, polynomials_full, Polynomials, Effort::kFull)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(NewKernel, chain20_threads, Chain20, Effort::kNormal)
    ->Unit(benchmark::kMillisecond)
    ->Threads(2)
    ->UseRealTime();

void LinkOnly(benchmark::State& state) {
  if (Skip(state)) return;
  std::string object = LlvmCompiler::Get().Compile(Polynomials());
  for (auto _ : state) benchmark::DoNotOptimize(LinkObject(object));
}
BENCHMARK(LinkOnly)->Unit(benchmark::kMicrosecond);

void CachedBlob(benchmark::State& state) {
  if (Skip(state)) return;
  std::string bytes = SerializeCode(CompileCode(Polynomials()));
  for (auto _ : state) LoadedCode code(DeserializeCode(bytes));
}
BENCHMARK(CachedBlob)->Unit(benchmark::kMicrosecond);

void FromDisk(benchmark::State& state) {
  if (Skip(state)) return;
  std::string directory = std::filesystem::temp_directory_path() / "hammock_compile_bench";
  FileCache cache(directory);
  std::string ir = Polynomials(), key = CodeKey(ir, {});
  cache.Save("bench", key, SerializeCode(CompileCode(ir)), 1 << 20);
  for (auto _ : state) LoadedCode code(DeserializeCode(*cache.Load("bench", CodeKey(ir, {}))));
  std::filesystem::remove_all(directory);
}
BENCHMARK(FromDisk)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hammock::cpu
