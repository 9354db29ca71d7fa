#include "backends/cpu/interpret/lane_functions.h"

#include <array>
#include <cmath>
#include <utility>

#include "backends/reference/float_arithmetic.h"
#include "backends/reference/special.h"

namespace hammock::cpu {
namespace {

template <class Function>
struct LaneTable {
  std::array<Function, kNumScalarFns> functions = {};
  std::array<bool, kNumScalarFns> has = {};  // sanitizers do not let constants ask a pointer

  constexpr void Set(ScalarFn fn, Function function) {
    functions[static_cast<size_t>(fn)] = function;
    has[static_cast<size_t>(fn)] = true;
  }
  Function At(ScalarFn fn) const { return functions[static_cast<size_t>(fn)]; }
};

/// Whether the table has all functions of this form that there are of floats, and no others.
template <class Function>
constexpr bool IsComplete(const LaneTable<Function>& table, ScalarForm form) {
  for (size_t i = 0; i < kNumScalarFns; ++i) {
    bool needed = kScalarFns[i].form == form && kScalarFns[i].floats != ScalarBody::kAbsent;
    if (table.has[i] != needed) return false;
  }
  return true;
}

constexpr LaneTable<LaneUnary> kUnary = [] {
  LaneTable<LaneUnary> table = {};
  table.Set(ScalarFn::kAbs, [](double x) { return std::abs(x); });
  table.Set(ScalarFn::kNeg, [](double x) { return -x; });
  table.Set(ScalarFn::kSign, [](double x) { return double((x > 0) - (x < 0)); });
  table.Set(ScalarFn::kFloor, [](double x) { return std::floor(x); });
  table.Set(ScalarFn::kCeil, [](double x) { return std::ceil(x); });
  table.Set(ScalarFn::kTrunc, [](double x) { return std::trunc(x); });
  table.Set(ScalarFn::kRound, [](double x) { return std::nearbyint(x); });
  table.Set(ScalarFn::kSqrt, [](double x) { return std::sqrt(x); });
  table.Set(ScalarFn::kRsqrt, [](double x) { return 1 / std::sqrt(x); });
  table.Set(ScalarFn::kReciprocal, [](double x) { return 1 / x; });
  table.Set(ScalarFn::kExp, [](double x) { return std::exp(x); });
  table.Set(ScalarFn::kExp2, [](double x) { return std::exp2(x); });
  table.Set(ScalarFn::kExpm1, [](double x) { return std::expm1(x); });
  table.Set(ScalarFn::kLog, [](double x) { return std::log(x); });
  table.Set(ScalarFn::kLog2, [](double x) { return std::log2(x); });
  table.Set(ScalarFn::kLog10, [](double x) { return std::log10(x); });
  table.Set(ScalarFn::kLog1p, [](double x) { return std::log1p(x); });
  table.Set(ScalarFn::kSin, [](double x) { return std::sin(x); });
  table.Set(ScalarFn::kCos, [](double x) { return std::cos(x); });
  table.Set(ScalarFn::kTan, [](double x) { return std::tan(x); });
  table.Set(ScalarFn::kAsin, [](double x) { return std::asin(x); });
  table.Set(ScalarFn::kAcos, [](double x) { return std::acos(x); });
  table.Set(ScalarFn::kAtan, [](double x) { return std::atan(x); });
  table.Set(ScalarFn::kSinh, [](double x) { return std::sinh(x); });
  table.Set(ScalarFn::kCosh, [](double x) { return std::cosh(x); });
  table.Set(ScalarFn::kTanh, [](double x) { return std::tanh(x); });
  table.Set(ScalarFn::kAsinh, [](double x) { return std::asinh(x); });
  table.Set(ScalarFn::kAcosh, [](double x) { return std::acosh(x); });
  table.Set(ScalarFn::kAtanh, [](double x) { return std::atanh(x); });
  table.Set(ScalarFn::kErf, [](double x) { return std::erf(x); });
  table.Set(ScalarFn::kErfc, [](double x) { return std::erfc(x); });
  table.Set(ScalarFn::kErfinv, reference::Erfinv);
  table.Set(ScalarFn::kLgamma, reference::Lgamma);
  table.Set(ScalarFn::kDigamma, reference::Digamma);
  table.Set(ScalarFn::kErfcx, reference::Erfcx);
  table.Set(ScalarFn::kI0e, reference::BesselI0e);
  table.Set(ScalarFn::kI1e, reference::BesselI1e);
  table.Set(ScalarFn::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); });
  table.Set(ScalarFn::kGelu, reference::Gelu);
  return table;
}();
static_assert(IsComplete(kUnary, ScalarForm::kUnary), "a function of floats has no line above");

template <DType dtype>
constexpr LaneTable<LaneBinary> kBinary = [] {
  LaneTable<LaneBinary> table = {};
  table.Set(ScalarFn::kAdd, [](double x, double y) { return x + y; });
  table.Set(ScalarFn::kSub, [](double x, double y) { return x - y; });
  table.Set(ScalarFn::kMul, [](double x, double y) { return x * y; });
  table.Set(ScalarFn::kDiv, [](double x, double y) { return x / y; });
  table.Set(ScalarFn::kFloorDivide, reference::FloorDivide);
  table.Set(ScalarFn::kTruncDivide,
            [](double x, double y) { return reference::TruncDivide(dtype, x, y); });
  table.Set(ScalarFn::kRemainder, reference::Remainder);
  table.Set(ScalarFn::kFmod, [](double x, double y) { return std::fmod(x, y); });
  table.Set(ScalarFn::kPow, [](double x, double y) { return std::pow(x, y); });
  table.Set(ScalarFn::kMaximum, reference::Maximum);
  table.Set(ScalarFn::kMinimum, reference::Minimum);
  table.Set(ScalarFn::kFmax, [](double x, double y) { return std::fmax(x, y); });
  table.Set(ScalarFn::kFmin, [](double x, double y) { return std::fmin(x, y); });
  table.Set(ScalarFn::kAtan2, [](double x, double y) { return std::atan2(x, y); });
  table.Set(ScalarFn::kHypot, [](double x, double y) { return std::hypot(x, y); });
  table.Set(ScalarFn::kCopysign, [](double x, double y) { return std::copysign(x, y); });
  table.Set(ScalarFn::kNextafter,
            [](double x, double y) { return reference::NextAfter(dtype, x, y); });
  table.Set(ScalarFn::kIgamma, reference::Igamma);
  table.Set(ScalarFn::kIgammac, reference::Igammac);
  table.Set(ScalarFn::kZeta, reference::Zeta);
  return table;
}();
static_assert(IsComplete(kBinary<DType::kF64>, ScalarForm::kBinary),
              "a function of floats has no line above");

int64_t GcdSigned(int64_t x, int64_t y) {
  while (y != 0) x = std::exchange(y, y == -1 ? 0 : x % y);
  return x < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x;
}

int64_t GcdUnsigned(int64_t x, int64_t y) {
  uint64_t a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
  while (b != 0) a = std::exchange(b, a % b);
  return static_cast<int64_t>(a);
}

}  // namespace

LaneUnary LaneUnaryFor(ScalarFn fn, DType dtype) {
  return IsFloat(dtype) ? kUnary.At(fn) : nullptr;
}

LaneBinary LaneBinaryFor(ScalarFn fn, DType dtype) {
  if (dtype == DType::kF64) return kBinary<DType::kF64>.At(fn);
  if (dtype == DType::kF32) return kBinary<DType::kF32>.At(fn);
  if (dtype == DType::kF16) return kBinary<DType::kF16>.At(fn);
  return dtype == DType::kBF16 ? kBinary<DType::kBF16>.At(fn) : nullptr;
}

LaneIntBinary LaneIntBinaryFor(ScalarFn fn, DType dtype) {
  if (fn != ScalarFn::kGcd || !IsIntegral(dtype)) return nullptr;
  return dtype == DType::kU64 ? GcdUnsigned : GcdSigned;
}

}  // namespace hammock::cpu
