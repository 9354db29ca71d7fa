#pragma once
/// Scalar bodies as compiled code, and values to try them on.

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/code/host_cpu.h"
#include "backends/cpu/code/llvm_compiler.h"
#include "backends/cpu/code/native_code.h"
#include "backends/cpu/emit/emit_values.h"
#include "compiler/scalar/scalar_bodies.h"
#include "ir/convert.h"

namespace hammock::cpu {

/// All functions with a body for a dtype. f16 and bf16 are those of f32.
inline std::vector<ScalarFn> FunctionsOf(DType dtype) {
  std::vector<ScalarFn> result;
  for (size_t i = 0; i < kNumScalarFns; ++i) {
    if (compiler::HasBody(static_cast<ScalarFn>(i), dtype)) {
      result.push_back(static_cast<ScalarFn>(i));
    }
  }
  return result;
}

inline bool IsBinary(ScalarFn fn) { return ArityOf(fn) == 2; }

/// A function `name`(count, x, y, out) over `count` elements, a multiple of `lanes`; `body` prints
/// what makes a stored value (of the element type `out`) of those that were loaded (of type `in`).
inline void PrintLoop(
    compiler::IrText& ir, const std::string& name, int lanes, std::string_view in,
    std::string_view out,
    const std::function<std::string(const std::string& x, const std::string& y)>& body) {
  ir.BeginFunction(fmt::format("void @{}(i64 %count, ptr %x, ptr %y, ptr %out)", name));
  ir.Label("entry");
  ir.Line("br label %loop");
  ir.Label("loop");
  ir.Line("%i = phi i64 [ 0, %entry ], [ %next, %loop ]");
  auto load = [&](const char* from) {
    std::string at = ir.Value("getelementptr {}, ptr {}, i64 %i", in, from);
    return ir.Value("load {}, ptr {}, align 1", compiler::IrType(in, lanes), at);
  };
  std::string x = load("%x"), y = load("%y");
  std::string result = body(x, y);
  std::string at = ir.Value("getelementptr {}, ptr %out, i64 %i", out);
  ir.Line("store {} {}, ptr {}, align 1", compiler::IrType(out, lanes), result, at);
  ir.Line("%next = add i64 %i, {}", lanes);
  ir.Line("%more = icmp slt i64 %next, %count");
  ir.Line("br i1 %more, label %loop, label %end");
  ir.Label("end");
  ir.Line("ret void");
  ir.EndFunction();
}

/// As kernels print it.
inline void PrintScalarLoop(compiler::IrText& ir, const std::string& name, ScalarFn fn, DType dtype,
                            int lanes) {
  ValueEmitter values(ir);
  compiler::Instr instr;
  instr.kind = compiler::Instr::Kind::kScalar;
  instr.dtype = IsTruth(fn) ? DType::kBool : dtype;
  instr.fn = fn;
  PrintLoop(ir, name, lanes, MemoryElement(dtype), MemoryElement(instr.dtype),
            [&](const std::string& x, const std::string& y) {
              std::vector<std::string> operands = {values.FromMemory(x, dtype, lanes)};
              if (IsBinary(fn)) operands.push_back(values.FromMemory(y, dtype, lanes));
              std::string result = values.Scalar(instr, dtype, lanes, operands);
              return values.ToMemory(result, instr.dtype, lanes);
            });
}

/// bool and the integers, f32 and f64: the types that bodies compute in.
inline constexpr DType kBodyTypes[] = {DType::kBool, DType::kU8,  DType::kU16, DType::kU32,
                                       DType::kU64,  DType::kI8,  DType::kI16, DType::kI32,
                                       DType::kI64,  DType::kF32, DType::kF64};

/// f(T{}) with the C++ type of a body type.
template <class F>
void VisitBodyType(DType dtype, F f) {
  VisitDType(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      f(uint8_t{});
    } else if constexpr (std::is_arithmetic_v<T>) {
      f(zero);
    }
  });
}

using CompiledLoop = void(int64_t count, const void* x, const void* y, void* out);

inline std::string LoopName(ScalarFn fn) { return fmt::format("f{}", static_cast<int>(fn)); }

/// All bodies of a dtype as code, under LoopName. For this machine they use what it has.
inline std::unique_ptr<LoadedCode> CompileBodies(DType dtype, int lanes,
                                                 const CompileOptions& options = {}) {
  compiler::IrText ir(options.cpu.empty() ? HostTarget() : compiler::IrTarget{});
  for (ScalarFn fn : FunctionsOf(dtype)) PrintScalarLoop(ir, LoopName(fn), fn, dtype, lanes);
  return std::make_unique<LoadedCode>(
      LinkObject(LlvmCompiler::Get().Compile(ir.Module(), options)));
}

/// Zeros, ones, the smallest and largest of each kind, neighbours of places where bodies change
/// their way, NaN.
template <class T>
std::vector<T> SpecialFloats() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> half = {0,
                         Limits::denorm_min(),
                         3 * Limits::denorm_min(),
                         Limits::min(),
                         Limits::min() - Limits::denorm_min(),
                         Limits::max(),
                         Limits::infinity(),
                         Limits::quiet_NaN(),
                         Limits::epsilon()};
  for (double x : {0.25,
                   0.5,
                   0.55,
                   0.65,
                   0.7071067811865476,
                   0.9,
                   1.0,
                   1.4142135623730951,
                   1.5,
                   2.0,
                   2.5,
                   3.0,
                   3.141592653589793,
                   4.0,
                   10.0,
                   17.5,
                   20.0,
                   22.0,
                   50.0,
                   88.0,
                   88.72284,
                   89.0,
                   103.0,
                   103.972,
                   104.,
                   128.,
                   149.,
                   150.,
                   1e9,
                   1e19,
                   1e30,
                   700.0,
                   708.,
                   709.78,
                   710.,
                   745.1,
                   746.,
                   1024.,
                   1074.,
                   1075.,
                   0x1p-14,
                   0x1p-26,
                   0x1p-54,
                   0x1p40,
                   0x1p64,
                   0x1p88,
                   0x1p112}) {
    T value = static_cast<T>(x);
    half.insert(half.end(), {value, std::nextafter(value, T(0)), std::nextafter(value, T(1e35))});
  }
  std::vector<T> all = half;
  for (T x : half) all.push_back(-x);
  return all;
}

template <class T>
std::vector<T> SpecialInts() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {Limits::min(), Limits::max(), T(Limits::min() + 1)};
  for (int x : {0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, -1, -2, -3, -7, -8}) {
    values.push_back(static_cast<T>(x));
  }
  return values;
}

template <class T>
std::vector<T> Specials() {
  if constexpr (std::floating_point<T>) {
    return SpecialFloats<T>();
  } else {
    return SpecialInts<T>();
  }
}

/// Values with all bit patterns alike likely, after special ones; `count` in all.
template <class T>
std::vector<T> SampleOf(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values = Specials<T>();
  while (values.size() < count) {
    uint64_t bits = random();
    if constexpr (std::floating_point<T>) {
      // Half of them where functions are not flat.
      T x;
      std::memcpy(&x, &bits, sizeof x);
      if (std::isnan(x)) x = std::numeric_limits<T>::quiet_NaN();  // signaling ones are not used
      double ordinary = (double(bits >> 11) * 0x1p-53 - 0.5) * std::exp2(double(bits % 9));
      values.push_back(values.size() % 2 ? x : static_cast<T>(ordinary));
    } else {
      values.push_back(static_cast<T>(bits >> (bits % 64)));
    }
  }
  values.resize(count);
  return values;
}

/// Pairs: special values with each other first, then samples. Of bool, if wanted.
template <class T>
void SamplePairs([[maybe_unused]] DType dtype, size_t count, std::vector<T>& x, std::vector<T>& y) {
  std::vector<T> few = Specials<T>();
  for (T a : few) {
    for (T b : few) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  std::vector<T> more_x = SampleOf<T>(count, 2), more_y = SampleOf<T>(count, 3);
  x.insert(x.end(), more_x.begin(), more_x.end());
  y.insert(y.end(), more_y.rbegin(), more_y.rend());
  x.resize(x.size() / 64 * 64);
  y.resize(x.size());
  if constexpr (std::is_same_v<T, uint8_t>) {
    if (dtype != DType::kBool) return;
    for (T& value : x) value &= 1;
    for (T& value : y) value &= 1;
  }
}

}  // namespace hammock::cpu
