// Compiled without contraction: see scalar_loops_of.h.
#include "backends/cpu/interpret/scalar_loops.h"

#include "backends/cpu/interpret/scalar_loops_of.h"

namespace hammock::cpu {
namespace {

using compiler::Number;

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

/// Roundings for one processor.
#define HAMMOCK_ROUNDINGS(Name, TARGET)                                         \
  struct Name {                                                                 \
    TARGET static void WidenHalf(int64_t count, const void* x, void* out) {     \
      RunWidenHalf(count, x, out);                                              \
    }                                                                           \
    TARGET static void WidenBFloat16(int64_t count, const void* x, void* out) { \
      RunWidenBFloat16(count, x, out);                                          \
    }                                                                           \
    TARGET static void RoundHalf(int64_t count, const void* x, void* out) {     \
      RunRoundHalf(count, x, out);                                              \
    }                                                                           \
    TARGET static void RoundBFloat16(int64_t count, const void* x, void* out) { \
      RunRoundBFloat16(count, x, out);                                          \
    }                                                                           \
  };

HAMMOCK_FOR_PROCESSORS(HAMMOCK_ROUNDINGS)
#undef HAMMOCK_ROUNDINGS

const Loops* LoopsFor(DType dtype) {
  if (dtype == DType::kF32) return FloatLoops();
  if (dtype == DType::kF64) return DoubleLoops();
  return IntegerLoopsFor(dtype);
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
  auto find = [&](auto kind) -> UnaryLoop {
    if (dtype == DType::kF16) return decltype(kind)::WidenHalf;
    return dtype == DType::kBF16 ? decltype(kind)::WidenBFloat16 : nullptr;
  };
  return HAMMOCK_VISIT_PROCESSOR(find);
}

UnaryLoop RoundLoopFor(DType dtype) {
  auto find = [&](auto kind) -> UnaryLoop {
    if (dtype == DType::kF16) return decltype(kind)::RoundHalf;
    return dtype == DType::kBF16 ? decltype(kind)::RoundBFloat16 : nullptr;
  };
  return HAMMOCK_VISIT_PROCESSOR(find);
}

}  // namespace hammock::cpu
