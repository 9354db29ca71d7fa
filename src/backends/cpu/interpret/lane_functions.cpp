#include "backends/cpu/interpret/lane_functions.h"

#include <array>
#include <cmath>
#include <utility>

#include "backends/reference/float_arithmetic.h"
#include "backends/reference/special.h"

namespace hammock::cpu {
namespace {

template <class Function>
using LaneTable = std::array<Function, kNumScalarFns>;

/// Whether the table has all functions of this form that there are of floats, and no others.
template <class Function>
constexpr bool IsComplete(const LaneTable<Function>& table, ScalarForm form) {
  for (size_t i = 0; i < kNumScalarFns; ++i) {
    bool needed = kScalarFns[i].form == form && kScalarFns[i].floats != ScalarBody::kAbsent;
    if ((table[i] != nullptr) != needed) return false;
  }
  return true;
}

constexpr LaneTable<LaneUnary> kUnary = [] {
  LaneTable<LaneUnary> table = {};
  auto set = [&](ScalarFn fn, LaneUnary f) { table[static_cast<size_t>(fn)] = f; };
  set(ScalarFn::kAbs, [](double x) { return std::abs(x); });
  set(ScalarFn::kNeg, [](double x) { return -x; });
  set(ScalarFn::kSign, [](double x) { return double((x > 0) - (x < 0)); });
  set(ScalarFn::kFloor, [](double x) { return std::floor(x); });
  set(ScalarFn::kCeil, [](double x) { return std::ceil(x); });
  set(ScalarFn::kTrunc, [](double x) { return std::trunc(x); });
  set(ScalarFn::kRound, [](double x) { return std::nearbyint(x); });
  set(ScalarFn::kSqrt, [](double x) { return std::sqrt(x); });
  set(ScalarFn::kRsqrt, [](double x) { return 1 / std::sqrt(x); });
  set(ScalarFn::kReciprocal, [](double x) { return 1 / x; });
  set(ScalarFn::kExp, [](double x) { return std::exp(x); });
  set(ScalarFn::kExp2, [](double x) { return std::exp2(x); });
  set(ScalarFn::kExpm1, [](double x) { return std::expm1(x); });
  set(ScalarFn::kLog, [](double x) { return std::log(x); });
  set(ScalarFn::kLog2, [](double x) { return std::log2(x); });
  set(ScalarFn::kLog10, [](double x) { return std::log10(x); });
  set(ScalarFn::kLog1p, [](double x) { return std::log1p(x); });
  set(ScalarFn::kSin, [](double x) { return std::sin(x); });
  set(ScalarFn::kCos, [](double x) { return std::cos(x); });
  set(ScalarFn::kTan, [](double x) { return std::tan(x); });
  set(ScalarFn::kAsin, [](double x) { return std::asin(x); });
  set(ScalarFn::kAcos, [](double x) { return std::acos(x); });
  set(ScalarFn::kAtan, [](double x) { return std::atan(x); });
  set(ScalarFn::kSinh, [](double x) { return std::sinh(x); });
  set(ScalarFn::kCosh, [](double x) { return std::cosh(x); });
  set(ScalarFn::kTanh, [](double x) { return std::tanh(x); });
  set(ScalarFn::kAsinh, [](double x) { return std::asinh(x); });
  set(ScalarFn::kAcosh, [](double x) { return std::acosh(x); });
  set(ScalarFn::kAtanh, [](double x) { return std::atanh(x); });
  set(ScalarFn::kErf, [](double x) { return std::erf(x); });
  set(ScalarFn::kErfc, [](double x) { return std::erfc(x); });
  set(ScalarFn::kErfinv, reference::Erfinv);
  set(ScalarFn::kLgamma, reference::Lgamma);
  set(ScalarFn::kDigamma, reference::Digamma);
  set(ScalarFn::kErfcx, reference::Erfcx);
  set(ScalarFn::kI0e, reference::BesselI0e);
  set(ScalarFn::kI1e, reference::BesselI1e);
  set(ScalarFn::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); });
  set(ScalarFn::kGelu, reference::Gelu);
  return table;
}();
static_assert(IsComplete(kUnary, ScalarForm::kUnary), "a function of floats has no line above");

template <DType dtype>
constexpr LaneTable<LaneBinary> kBinary = [] {
  LaneTable<LaneBinary> table = {};
  auto set = [&](ScalarFn fn, LaneBinary f) { table[static_cast<size_t>(fn)] = f; };
  set(ScalarFn::kAdd, [](double x, double y) { return x + y; });
  set(ScalarFn::kSub, [](double x, double y) { return x - y; });
  set(ScalarFn::kMul, [](double x, double y) { return x * y; });
  set(ScalarFn::kDiv, [](double x, double y) { return x / y; });
  set(ScalarFn::kFloorDivide, reference::FloorDivide);
  set(ScalarFn::kTruncDivide,
      [](double x, double y) { return reference::TruncDivide(dtype, x, y); });
  set(ScalarFn::kRemainder, reference::Remainder);
  set(ScalarFn::kFmod, [](double x, double y) { return std::fmod(x, y); });
  set(ScalarFn::kPow, [](double x, double y) { return std::pow(x, y); });
  set(ScalarFn::kMaximum, reference::Maximum);
  set(ScalarFn::kMinimum, reference::Minimum);
  set(ScalarFn::kFmax, [](double x, double y) { return std::fmax(x, y); });
  set(ScalarFn::kFmin, [](double x, double y) { return std::fmin(x, y); });
  set(ScalarFn::kAtan2, [](double x, double y) { return std::atan2(x, y); });
  set(ScalarFn::kHypot, [](double x, double y) { return std::hypot(x, y); });
  set(ScalarFn::kCopysign, [](double x, double y) { return std::copysign(x, y); });
  set(ScalarFn::kNextafter, [](double x, double y) { return reference::NextAfter(dtype, x, y); });
  set(ScalarFn::kIgamma, reference::Igamma);
  set(ScalarFn::kIgammac, reference::Igammac);
  set(ScalarFn::kZeta, reference::Zeta);
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
  return IsFloat(dtype) ? kUnary[static_cast<size_t>(fn)] : nullptr;
}

LaneBinary LaneBinaryFor(ScalarFn fn, DType dtype) {
  size_t index = static_cast<size_t>(fn);
  if (dtype == DType::kF64) return kBinary<DType::kF64>[index];
  if (dtype == DType::kF32) return kBinary<DType::kF32>[index];
  if (dtype == DType::kF16) return kBinary<DType::kF16>[index];
  return dtype == DType::kBF16 ? kBinary<DType::kBF16>[index] : nullptr;
}

LaneIntBinary LaneIntBinaryFor(ScalarFn fn, DType dtype) {
  if (fn != ScalarFn::kGcd || !IsIntegral(dtype)) return nullptr;
  return dtype == DType::kU64 ? GcdUnsigned : GcdSigned;
}

}  // namespace hammock::cpu
