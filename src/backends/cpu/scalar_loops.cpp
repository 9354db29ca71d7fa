// Compiled without contraction, and without regard to floating-point traps and errno, which change
// no value: loops could not be vectorised otherwise.
#include "backends/cpu/scalar_loops.h"

#include <array>
#include <utility>

#include "compiler/scalar_bodies.h"

namespace hammock::cpu {
namespace {

using compiler::Number;
using compiler::ScalarForm;

constexpr size_t kFunctions = static_cast<size_t>(ScalarFn::kSelect) + 1;

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

HAMMOCK_BODY void RunWidenHalf(int64_t count, const void* x, void* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    Number<uint16_t> bits{static_cast<const uint16_t*>(x)[i]};
    static_cast<float*>(out)[i] = FromHalfBits(bits).value;
  }
}
HAMMOCK_BODY void RunWidenBFloat16(int64_t count, const void* x, void* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    Number<uint16_t> bits{static_cast<const uint16_t*>(x)[i]};
    static_cast<float*>(out)[i] = compiler::FromBFloat16Bits(bits).value;
  }
}
HAMMOCK_BODY void RunRoundHalf(int64_t count, const void* x, void* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    Number<float> value{static_cast<const float*>(x)[i]};
    static_cast<uint16_t*>(out)[i] = ToHalfBits(value).value;
  }
}
HAMMOCK_BODY void RunRoundBFloat16(int64_t count, const void* x, void* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    Number<float> value{static_cast<const float*>(x)[i]};
    static_cast<uint16_t*>(out)[i] = compiler::ToBFloat16Bits(value).value;
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
    TARGET static void WidenHalf(int64_t count, const void* x, void* out) {             \
      RunWidenHalf(count, x, out);                                                      \
    }                                                                                   \
    TARGET static void WidenBFloat16(int64_t count, const void* x, void* out) {         \
      RunWidenBFloat16(count, x, out);                                                  \
    }                                                                                   \
    TARGET static void RoundHalf(int64_t count, const void* x, void* out) {             \
      RunRoundHalf(count, x, out);                                                      \
    }                                                                                   \
    TARGET static void RoundBFloat16(int64_t count, const void* x, void* out) {         \
      RunRoundBFloat16(count, x, out);                                                  \
    }                                                                                   \
  };

HAMMOCK_LOOPS(Plain, )
#if defined(__x86_64__)
HAMMOCK_LOOPS(Avx2, [[gnu::target("avx2,fma")]])
HAMMOCK_LOOPS(Avx512,
              [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,fma,prefer-vector-width=512")]])
#endif
#undef HAMMOCK_LOOPS

template <class Processor, ScalarFn fn, DType dtype, class T>
constexpr UnaryLoop UnaryOf() {
  constexpr ScalarForm kForm = compiler::FormOf(fn);
  if constexpr (compiler::HasBody(fn, dtype) &&
                (kForm == ScalarForm::kUnary || kForm == ScalarForm::kTest)) {
    return Processor::template Unary<fn, dtype, T>;
  }
  return nullptr;
}

template <class Processor, ScalarFn fn, DType dtype, class T>
constexpr BinaryLoop BinaryOf() {
  constexpr ScalarForm kForm = compiler::FormOf(fn);
  if constexpr (compiler::HasBody(fn, dtype) &&
                (kForm == ScalarForm::kBinary || kForm == ScalarForm::kCompare)) {
    return Processor::template Binary<fn, dtype, T>;
  }
  return nullptr;
}

struct Loops {
  std::array<UnaryLoop, kFunctions> unary;
  std::array<BinaryLoop, kFunctions> binary;
};

template <class Processor, DType dtype, class T, size_t... kIndex>
constexpr Loops MakeLoops(std::index_sequence<kIndex...>) {
  return {{UnaryOf<Processor, static_cast<ScalarFn>(kIndex), dtype, T>()...},
          {BinaryOf<Processor, static_cast<ScalarFn>(kIndex), dtype, T>()...}};
}

template <class Processor>
struct Table {
  template <DType dtype, class T>
  static constexpr Loops kLoops =
      MakeLoops<Processor, dtype, T>(std::make_index_sequence<kFunctions>());

  static const Loops* Find(DType dtype) {
    switch (dtype) {
      case DType::kBool:
        return &kLoops<DType::kBool, uint8_t>;
      case DType::kU8:
        return &kLoops<DType::kU8, uint8_t>;
      case DType::kU16:
        return &kLoops<DType::kU16, uint16_t>;
      case DType::kU32:
        return &kLoops<DType::kU32, uint32_t>;
      case DType::kU64:
        return &kLoops<DType::kU64, uint64_t>;
      case DType::kI8:
        return &kLoops<DType::kI8, int8_t>;
      case DType::kI16:
        return &kLoops<DType::kI16, int16_t>;
      case DType::kI32:
        return &kLoops<DType::kI32, int32_t>;
      case DType::kI64:
        return &kLoops<DType::kI64, int64_t>;
      case DType::kF32:
        return &kLoops<DType::kF32, float>;
      case DType::kF64:
        return &kLoops<DType::kF64, double>;
      default:
        return nullptr;
    }
  }
};

/// visit(Processor{}) with the one that this machine is.
template <class Visit>
auto VisitProcessor(Visit visit) {
#if defined(__x86_64__)
  static const bool has_avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx512) return visit(Avx512{});
  if (has_avx2) return visit(Avx2{});
#endif
  return visit(Plain{});
}

const Loops* LoopsFor(DType dtype) {
  return VisitProcessor([&](auto p) { return Table<decltype(p)>::Find(dtype); });
}

}  // namespace

UnaryLoop UnaryLoopFor(ScalarFn fn, DType dtype) {
  const Loops* loops = LoopsFor(dtype);
  return loops ? loops->unary[static_cast<size_t>(fn)] : nullptr;
}

BinaryLoop BinaryLoopFor(ScalarFn fn, DType dtype) {
  const Loops* loops = LoopsFor(dtype);
  return loops ? loops->binary[static_cast<size_t>(fn)] : nullptr;
}

UnaryLoop WidenLoopFor(DType dtype) {
  return VisitProcessor([&](auto p) -> UnaryLoop {
    if (dtype == DType::kF16) return decltype(p)::WidenHalf;
    return dtype == DType::kBF16 ? decltype(p)::WidenBFloat16 : nullptr;
  });
}

UnaryLoop RoundLoopFor(DType dtype) {
  return VisitProcessor([&](auto p) -> UnaryLoop {
    if (dtype == DType::kF16) return decltype(p)::RoundHalf;
    return dtype == DType::kBF16 ? decltype(p)::RoundBFloat16 : nullptr;
  });
}

}  // namespace hammock::cpu
