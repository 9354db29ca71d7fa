#pragma once
/// The loops of scalar_loops.h for one dtype and each kind of processor. Files that include this
/// are compiled without contraction, and without regard to floating-point traps and errno, which
/// change no value: loops could not be vectorised otherwise. Each has some dtypes, as they take
/// long to compile.

#include <array>
#include <utility>

#include "backends/cpu/interpret/scalar_loops.h"
#include "compiler/scalar/scalar_bodies.h"

namespace hammock::cpu {

inline constexpr size_t kLoopFunctions = static_cast<size_t>(ScalarFn::kSelect) + 1;

struct Loops {
  std::array<UnaryLoop, kLoopFunctions> unary;
  std::array<BinaryLoop, kLoopFunctions> binary;
};

/// For the instructions that this processor has.
const Loops* IntegerLoopsFor(DType dtype);  ///< bool and integers
const Loops* FloatLoops();
const Loops* DoubleLoops();

enum class Processor { kPlain, kAvx2, kAvx512 };

inline Processor ThisProcessor() {
#if defined(__x86_64__)
  static const bool has_avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx512) return Processor::kAvx512;
  if (has_avx2) return Processor::kAvx2;
#endif
  return Processor::kPlain;
}

#define HAMMOCK_AVX2 [[gnu::target("avx2,fma")]]
#define HAMMOCK_AVX512 \
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,fma,prefer-vector-width=512")]]

namespace loops {

using compiler::Number;
using compiler::ScalarForm;

template <ScalarFn fn, DType dtype, class T>
HAMMOCK_BODY void RunUnary(int64_t count, const void* x, void* out) {
  const T* in = static_cast<const T*>(x);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    Number<T> a{in[i]};
    if constexpr (compiler::FormOf(fn) == ScalarForm::kTest) {
      static_cast<uint8_t*>(out)[i] = compiler::Test(fn, a).value;
    } else if constexpr (dtype == DType::kBool) {
      static_cast<T*>(out)[i] = compiler::UnaryBool(fn, a).value;
    } else {
      static_cast<T*>(out)[i] = compiler::Unary(fn, a).value;
    }
  }
}

template <ScalarFn fn, DType dtype, class T>
HAMMOCK_BODY void RunBinary(int64_t count, const void* x, const void* y, void* out) {
  const T* left = static_cast<const T*>(x);
  const T* right = static_cast<const T*>(y);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    Number<T> a{left[i]}, b{right[i]};
    if constexpr (compiler::FormOf(fn) == ScalarForm::kCompare) {
      static_cast<uint8_t*>(out)[i] = compiler::Compare(fn, a, b).value;
    } else if constexpr (dtype == DType::kBool) {
      static_cast<T*>(out)[i] = compiler::BinaryBool(fn, a, b).value;
    } else {
      static_cast<T*>(out)[i] = compiler::Binary(fn, a, b).value;
    }
  }
}

/// All loops for one processor. `TARGET` is an attribute, or nothing.
#define HAMMOCK_LOOPS(Name, TARGET)                                                     \
  struct Name {                                                                         \
    template <ScalarFn fn, DType dtype, class T>                                        \
    TARGET static void Unary(int64_t count, const void* x, void* out) {                 \
      RunUnary<fn, dtype, T>(count, x, out);                                            \
    }                                                                                   \
    template <ScalarFn fn, DType dtype, class T>                                        \
    TARGET static void Binary(int64_t count, const void* x, const void* y, void* out) { \
      RunBinary<fn, dtype, T>(count, x, y, out);                                        \
    }                                                                                   \
  };

HAMMOCK_LOOPS(Plain, )
#if defined(__x86_64__)
HAMMOCK_LOOPS(Avx2, HAMMOCK_AVX2)
HAMMOCK_LOOPS(Avx512, HAMMOCK_AVX512)
#endif
#undef HAMMOCK_LOOPS

template <class Kind, ScalarFn fn, DType dtype, class T>
constexpr UnaryLoop UnaryOf() {
  constexpr ScalarForm kForm = compiler::FormOf(fn);
  if constexpr (compiler::HasBody(fn, dtype) &&
                (kForm == ScalarForm::kUnary || kForm == ScalarForm::kTest)) {
    return Kind::template Unary<fn, dtype, T>;
  }
  return nullptr;
}

template <class Kind, ScalarFn fn, DType dtype, class T>
constexpr BinaryLoop BinaryOf() {
  constexpr ScalarForm kForm = compiler::FormOf(fn);
  if constexpr (compiler::HasBody(fn, dtype) &&
                (kForm == ScalarForm::kBinary || kForm == ScalarForm::kCompare)) {
    return Kind::template Binary<fn, dtype, T>;
  }
  return nullptr;
}

template <class Kind, DType dtype, class T, size_t... kIndex>
constexpr Loops MakeLoops(std::index_sequence<kIndex...>) {
  return {{UnaryOf<Kind, static_cast<ScalarFn>(kIndex), dtype, T>()...},
          {BinaryOf<Kind, static_cast<ScalarFn>(kIndex), dtype, T>()...}};
}

template <class Kind, DType dtype, class T>
inline constexpr Loops kLoops =
    MakeLoops<Kind, dtype, T>(std::make_index_sequence<kLoopFunctions>());

/// The loops of a dtype whose elements are of type T.
template <DType dtype, class T>
const Loops* Find() {
#if defined(__x86_64__)
  if (ThisProcessor() == Processor::kAvx512) return &kLoops<Avx512, dtype, T>;
  if (ThisProcessor() == Processor::kAvx2) return &kLoops<Avx2, dtype, T>;
#endif
  return &kLoops<Plain, dtype, T>;
}

}  // namespace loops
}  // namespace hammock::cpu
