#pragma once
/// The loops of scalar_loops.h for one dtype and each kind of processor. Files that include this
/// are compiled without contraction, and without regard to floating-point traps and errno, which
/// change no value: loops could not be vectorised otherwise. Each has some dtypes, as they take
/// long to compile.

#include <array>
#include <utility>

#include "backends/cpu/host/cpu_features.h"
#include "backends/cpu/interpret/scalar_loops.h"
#include "compiler/scalar/scalar_bodies.h"

namespace hammock::cpu {

struct Loops {
  std::array<UnaryLoop, kNumScalarFns> unary;
  std::array<BinaryLoop, kNumScalarFns> binary;
};

/// For the instructions that this processor has.
const Loops* IntegerLoopsFor(DType dtype);  ///< bool and integers
const Loops* FloatLoops();
const Loops* DoubleLoops();

namespace loops {

using compiler::Number;

template <ScalarFn fn, DType dtype, class T>
HAMMOCK_BODY void RunUnary(int64_t count, const void* x, void* out) {
  const T* in = static_cast<const T*>(x);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    Number<T> a{in[i]};
    if constexpr (FormOf(fn) == ScalarForm::kTest) {
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
    if constexpr (FormOf(fn) == ScalarForm::kCompare) {
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

HAMMOCK_FOR_PROCESSORS(HAMMOCK_LOOPS)
#undef HAMMOCK_LOOPS

template <class Kind, ScalarFn fn, DType dtype, class T>
constexpr UnaryLoop UnaryOf() {
  constexpr ScalarForm kForm = FormOf(fn);
  if constexpr (compiler::HasBody(fn, dtype) &&
                (kForm == ScalarForm::kUnary || kForm == ScalarForm::kTest)) {
    return Kind::template Unary<fn, dtype, T>;
  }
  return nullptr;
}

template <class Kind, ScalarFn fn, DType dtype, class T>
constexpr BinaryLoop BinaryOf() {
  constexpr ScalarForm kForm = FormOf(fn);
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
    MakeLoops<Kind, dtype, T>(std::make_index_sequence<kNumScalarFns>());

/// The loops of a dtype whose elements are of type T.
template <DType dtype, class T>
const Loops* Find() {
  auto find = [](auto kind) -> const Loops* { return &kLoops<decltype(kind), dtype, T>; };
  return HAMMOCK_VISIT_PROCESSOR(find);
}

}  // namespace loops
}  // namespace hammock::cpu
