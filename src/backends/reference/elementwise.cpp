#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backends/reference/elements.h"
#include "backends/reference/float_arithmetic.h"
#include "backends/reference/kernel.h"
#include "backends/reference/special.h"
#include "ir/convert.h"
#include "ir/primitives.h"

namespace hammock::reference {
namespace {

constexpr int64_t kBlock = 512;

/// One block of an elementwise op: `count` results from operands of one dtype. A result that is a
/// truth value is 0 or 1.
template <class Wide>
struct Block {
  const KernelCall& call;
  DType dtype;
  int64_t count;
  const Wide* a;
  const Wide* b;
  Wide* out;

  template <class F>
  void Map(F f) const {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Wide>(f(a[i]));
  }
  template <class F>
  void Zip(F f) const {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Wide>(f(a[i], b[i]));
  }
};

// ---- floats

[[noreturn]] void NoSuchForm(const KernelCall& call, DType dtype) {
  Throw<InternalError>(ErrorCode::kInternal, "{}: no form for {}", call.node.op->name(),
                       NameOf(dtype));
}

void Apply(ScalarFn fn, const Block<double>& block) {
  DType dtype = block.dtype;
  switch (fn) {
    case ScalarFn::kAbs:
      return block.Map([](double x) { return std::abs(x); });
    case ScalarFn::kNeg:
      return block.Map([](double x) { return -x; });
    case ScalarFn::kSign:
      return block.Map([](double x) { return (x > 0) - (x < 0); });
    case ScalarFn::kFloor:
      return block.Map([](double x) { return std::floor(x); });
    case ScalarFn::kCeil:
      return block.Map([](double x) { return std::ceil(x); });
    case ScalarFn::kTrunc:
      return block.Map([](double x) { return std::trunc(x); });
    case ScalarFn::kRound:
      return block.Map([](double x) { return std::nearbyint(x); });
    case ScalarFn::kSqrt:
      return block.Map([](double x) { return std::sqrt(x); });
    case ScalarFn::kRsqrt:
      return block.Map([](double x) { return 1 / std::sqrt(x); });
    case ScalarFn::kReciprocal:
      return block.Map([](double x) { return 1 / x; });
    case ScalarFn::kExp:
      return block.Map([](double x) { return std::exp(x); });
    case ScalarFn::kExp2:
      return block.Map([](double x) { return std::exp2(x); });
    case ScalarFn::kExpm1:
      return block.Map([](double x) { return std::expm1(x); });
    case ScalarFn::kLog:
      return block.Map([](double x) { return std::log(x); });
    case ScalarFn::kLog2:
      return block.Map([](double x) { return std::log2(x); });
    case ScalarFn::kLog10:
      return block.Map([](double x) { return std::log10(x); });
    case ScalarFn::kLog1p:
      return block.Map([](double x) { return std::log1p(x); });
    case ScalarFn::kSin:
      return block.Map([](double x) { return std::sin(x); });
    case ScalarFn::kCos:
      return block.Map([](double x) { return std::cos(x); });
    case ScalarFn::kTan:
      return block.Map([](double x) { return std::tan(x); });
    case ScalarFn::kAsin:
      return block.Map([](double x) { return std::asin(x); });
    case ScalarFn::kAcos:
      return block.Map([](double x) { return std::acos(x); });
    case ScalarFn::kAtan:
      return block.Map([](double x) { return std::atan(x); });
    case ScalarFn::kSinh:
      return block.Map([](double x) { return std::sinh(x); });
    case ScalarFn::kCosh:
      return block.Map([](double x) { return std::cosh(x); });
    case ScalarFn::kTanh:
      return block.Map([](double x) { return std::tanh(x); });
    case ScalarFn::kAsinh:
      return block.Map([](double x) { return std::asinh(x); });
    case ScalarFn::kAcosh:
      return block.Map([](double x) { return std::acosh(x); });
    case ScalarFn::kAtanh:
      return block.Map([](double x) { return std::atanh(x); });
    case ScalarFn::kErf:
      return block.Map([](double x) { return std::erf(x); });
    case ScalarFn::kErfc:
      return block.Map([](double x) { return std::erfc(x); });
    case ScalarFn::kErfinv:
      return block.Map(Erfinv);
    case ScalarFn::kLgamma:
      return block.Map(Lgamma);
    case ScalarFn::kDigamma:
      return block.Map(Digamma);
    case ScalarFn::kErfcx:
      return block.Map(Erfcx);
    case ScalarFn::kI0e:
      return block.Map(BesselI0e);
    case ScalarFn::kI1e:
      return block.Map(BesselI1e);
    case ScalarFn::kSigmoid:
      return block.Map([](double x) { return 1 / (1 + std::exp(-x)); });
    case ScalarFn::kGelu:
      return block.Map(Gelu);
    case ScalarFn::kIsNan:
      return block.Map([](double x) { return std::isnan(x); });
    case ScalarFn::kAdd:
      return block.Zip([](double x, double y) { return x + y; });
    case ScalarFn::kSub:
      return block.Zip([](double x, double y) { return x - y; });
    case ScalarFn::kMul:
      return block.Zip([](double x, double y) { return x * y; });
    case ScalarFn::kDiv:
      return block.Zip([](double x, double y) { return x / y; });
    case ScalarFn::kFloorDivide:
      return block.Zip(FloorDivide);
    case ScalarFn::kTruncDivide:
      return block.Zip([dtype](double x, double y) { return TruncDivide(dtype, x, y); });
    case ScalarFn::kRemainder:
      return block.Zip(Remainder);
    case ScalarFn::kFmod:
      return block.Zip([](double x, double y) { return std::fmod(x, y); });
    case ScalarFn::kPow:
      return block.Zip([](double x, double y) { return std::pow(x, y); });
    case ScalarFn::kMaximum:
      return block.Zip(Maximum);
    case ScalarFn::kMinimum:
      return block.Zip(Minimum);
    case ScalarFn::kFmax:
      return block.Zip([](double x, double y) {
        return std::isnan(x) ? y : std::isnan(y) ? x : std::fmax(x, y);  // signalling ones too
      });
    case ScalarFn::kFmin:
      return block.Zip([](double x, double y) {
        return std::isnan(x) ? y : std::isnan(y) ? x : std::fmin(x, y);  // signalling ones too
      });
    case ScalarFn::kAtan2:
      return block.Zip([](double x, double y) { return std::atan2(x, y); });
    case ScalarFn::kHypot:
      return block.Zip([](double x, double y) { return std::hypot(x, y); });
    case ScalarFn::kCopysign:
      return block.Zip([](double x, double y) { return std::copysign(x, y); });
    case ScalarFn::kNextafter:
      return block.Zip([dtype](double x, double y) { return NextAfter(dtype, x, y); });
    case ScalarFn::kIgamma:
      return block.Zip(Igamma);
    case ScalarFn::kIgammac:
      return block.Zip(Igammac);
    case ScalarFn::kZeta:
      return block.Zip(Zeta);
    case ScalarFn::kEq:
      return block.Zip([](double x, double y) { return x == y; });
    case ScalarFn::kNe:
      return block.Zip([](double x, double y) { return x != y; });
    case ScalarFn::kLt:
      return block.Zip([](double x, double y) { return x < y; });
    case ScalarFn::kLe:
      return block.Zip([](double x, double y) { return x <= y; });
    case ScalarFn::kGt:
      return block.Zip([](double x, double y) { return x > y; });
    case ScalarFn::kGe:
      return block.Zip([](double x, double y) { return x >= y; });
    default:
      NoSuchForm(block.call, block.dtype);
  }
}

// ---- integers: all arithmetic is done unsigned, which wraps

template <class Int>
Int PowInt(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == static_cast<Int>(-1)) return exponent % 2 == 0 ? 1 : base;
    return 0;
  }
  uint64_t result = 1;
  uint64_t power = static_cast<uint64_t>(base);
  for (uint64_t e = static_cast<uint64_t>(exponent); e != 0; e >>= 1) {
    if (e & 1) result *= power;
    power *= power;
  }
  return static_cast<Int>(result);
}

template <class Int>
Int Negate(Int x) {
  return static_cast<Int>(-static_cast<uint64_t>(x));
}

/// Truncated quotient; the smallest integer divided by -1 wraps.
template <class Int>
Int Quotient(Int x, Int y) {
  if constexpr (std::signed_integral<Int>) {
    if (y == -1) return Negate(x);
  }
  return x / y;
}

template <class Int>
Int Modulus(Int x, Int y) {
  if constexpr (std::signed_integral<Int>) {
    if (y == -1) return 0;
  }
  return x % y;
}

template <class Int>
bool SignsDiffer(Int x, Int y) {
  return (x < 0) != (y < 0);
}

template <class Int>
Int FloorQuotient(Int x, Int y) {
  return Quotient(x, y) - (Modulus(x, y) != 0 && SignsDiffer(x, y));
}

template <class Int>
Int FloorModulus(Int x, Int y) {
  Int mod = Modulus(x, y);
  return mod != 0 && SignsDiffer(x, y) ? mod + y : mod;
}

template <class Int>
Int Gcd(Int x, Int y) {
  while (y != 0) x = std::exchange(y, Modulus(x, y));
  return x < 0 ? Negate(x) : x;
}

template <class Int>
void CheckDivisors(const Block<Int>& block) {
  if (std::find(block.b, block.b + block.count, Int{0}) == block.b + block.count) return;
  Fail(block.call, ErrorCode::kValue, "ZeroDivisionError: integer division by zero");
}

template <class Int>
void Apply(ScalarFn fn, const Block<Int>& block) {
  const Int bits = static_cast<Int>(InfoOf(block.dtype).bits);
  const bool is_bool = block.dtype == DType::kBool;
  using U = uint64_t;
  switch (fn) {
    case ScalarFn::kAbs:
      return block.Map([](Int x) { return x < 0 ? Negate(x) : x; });
    case ScalarFn::kNeg:
      return block.Map([](Int x) { return Negate(x); });
    case ScalarFn::kSign:
      return block.Map([](Int x) { return (x > 0) - (x < 0); });
    case ScalarFn::kFloor:
    case ScalarFn::kCeil:
    case ScalarFn::kTrunc:
    case ScalarFn::kRound:
      return block.Map([](Int x) { return x; });
    case ScalarFn::kBitwiseNot:
      if (is_bool) return block.Map([](Int x) { return x == 0; });
      return block.Map([](Int x) { return ~x; });
    case ScalarFn::kLogicalNot:
      return block.Map([](Int x) { return x == 0; });
    case ScalarFn::kIsNan:
      return block.Map([](Int) { return 0; });
    case ScalarFn::kAdd:
      return block.Zip([](Int x, Int y) { return U(x) + U(y); });
    case ScalarFn::kSub:
      return block.Zip([](Int x, Int y) { return U(x) - U(y); });
    case ScalarFn::kMul:
      return block.Zip([](Int x, Int y) { return U(x) * U(y); });
    case ScalarFn::kFloorDivide:
      CheckDivisors(block);
      return block.Zip([](Int x, Int y) { return FloorQuotient(x, y); });
    case ScalarFn::kTruncDivide:
      CheckDivisors(block);
      return block.Zip([](Int x, Int y) { return Quotient(x, y); });
    case ScalarFn::kRemainder:
      CheckDivisors(block);
      return block.Zip([](Int x, Int y) { return FloorModulus(x, y); });
    case ScalarFn::kFmod:
      CheckDivisors(block);
      return block.Zip([](Int x, Int y) { return Modulus(x, y); });
    case ScalarFn::kPow:
      return block.Zip([](Int x, Int y) { return PowInt(x, y); });
    case ScalarFn::kMaximum:
    case ScalarFn::kFmax:
      return block.Zip([](Int x, Int y) { return std::max(x, y); });
    case ScalarFn::kMinimum:
    case ScalarFn::kFmin:
      return block.Zip([](Int x, Int y) { return std::min(x, y); });
    case ScalarFn::kGcd:
      return block.Zip(Gcd<Int>);
    case ScalarFn::kBitwiseAnd:
      return block.Zip([](Int x, Int y) { return x & y; });
    case ScalarFn::kBitwiseOr:
      return block.Zip([](Int x, Int y) { return x | y; });
    case ScalarFn::kBitwiseXor:
      return block.Zip([](Int x, Int y) { return x ^ y; });
    case ScalarFn::kShiftLeft:
      return block.Zip([bits](Int x, Int y) { return y < 0 || y >= bits ? U{0} : U(x) << y; });
    case ScalarFn::kShiftRight:
      return block.Zip([bits](Int x, Int y) {
        if (y >= 0 && y < bits) return x >> y;
        return x < 0 ? static_cast<Int>(-1) : Int{0};
      });
    case ScalarFn::kLogicalAnd:
      return block.Zip([](Int x, Int y) { return x != 0 && y != 0; });
    case ScalarFn::kLogicalOr:
      return block.Zip([](Int x, Int y) { return x != 0 || y != 0; });
    case ScalarFn::kLogicalXor:
      return block.Zip([](Int x, Int y) { return (x != 0) != (y != 0); });
    case ScalarFn::kEq:
      return block.Zip([](Int x, Int y) { return x == y; });
    case ScalarFn::kNe:
      return block.Zip([](Int x, Int y) { return x != y; });
    case ScalarFn::kLt:
      return block.Zip([](Int x, Int y) { return x < y; });
    case ScalarFn::kLe:
      return block.Zip([](Int x, Int y) { return x <= y; });
    case ScalarFn::kGt:
      return block.Zip([](Int x, Int y) { return x > y; });
    case ScalarFn::kGe:
      return block.Zip([](Int x, Int y) { return x >= y; });
    default:
      NoSuchForm(block.call, block.dtype);
  }
}

// ---- operands

void CastInto(const HostTensor& from, HostTensor& to) {
  VisitWide(from.dtype(), [&](auto zero) {
    decltype(zero) buffer[kBlock];
    for (int64_t first = 0; first < from.numel(); first += kBlock) {
      int64_t count = std::min(kBlock, from.numel() - first);
      Load(from, first, count, buffer);
      Store(buffer, count, to, first);
    }
  });
}

/// The operand in the dtype that the op computes in and, unless it is one element, in the result's
/// sizes. Lowered graphs come that way; traced ones may leave casts and broadcasts to us.
HostTensor Normalized(KernelCall& call, const HostTensor& operand, DType dtype) {
  HostTensor value = operand;
  if (value.dtype() != dtype) {
    value = call.New(operand.shape().With(dtype));
    CastInto(operand, value);
  }
  const Dims& sizes = call.node.type().sizes();
  if (value.numel() == 1 || value.shape().sizes() == sizes) return value;
  HostTensor wide = call.New(Shape(dtype, sizes));
  CopyStrided(sizes, value, BroadcastLayout(value.shape().sizes(), sizes), wide, Contiguous(sizes));
  return wide;
}

DType OperandDType(const KernelCall& call) {
  const Shape* types[2] = {};
  for (size_t i = 0; i < call.in.size(); ++i) types[i] = &call.in[i]->shape();
  return ComputeDType(*call.node.op, std::span(types, call.in.size()));
}

/// Reads one operand block by block; a single element is repeated.
template <class Wide>
class Reader {
 public:
  Reader(const HostTensor& tensor, int64_t total) : tensor_(tensor), single_(tensor.numel() == 1) {
    if (!single_) return;
    Load(tensor_, 0, 1, buffer_);
    std::fill(buffer_ + 1, buffer_ + std::clamp<int64_t>(total, 1, kBlock), buffer_[0]);
  }
  const Wide* Read(int64_t first, int64_t count) {
    if (!single_) Load(tensor_, first, count, buffer_);
    return buffer_;
  }

 private:
  const HostTensor& tensor_;
  bool single_;
  Wide buffer_[kBlock];
};

template <class Wide>
void RunBlocks(const KernelCall& call, DType dtype, const HostTensor& a, const HostTensor& b,
               HostTensor& out) {
  Reader<Wide> read_a(a, out.numel());
  Reader<Wide> read_b(b, out.numel());
  Wide results[kBlock];
  bool binary = call.in.size() > 1;
  for (int64_t first = 0; first < out.numel(); first += kBlock) {
    int64_t count = std::min(kBlock, out.numel() - first);
    const Wide* left = read_a.Read(first, count);
    const Wide* right = binary ? read_b.Read(first, count) : left;
    Apply(call.node.op->scalar, Block<Wide>{call, dtype, count, left, right, results});
    Store(results, count, out, first);
  }
}

void RunSelect(KernelCall& call) {
  DType dtype = call.node.type().dtype();
  HostTensor condition = Normalized(call, *call.in[0], DType::kBool);
  HostTensor self = Normalized(call, *call.in[1], dtype);
  HostTensor other = Normalized(call, *call.in[2], dtype);
  HostTensor& out = call.NewResult();
  int bytes = InfoOf(dtype).bits / 8;
  const uint8_t* holds = static_cast<const uint8_t*>(condition.data());
  auto step = [](const HostTensor& tensor) { return tensor.numel() == 1 ? 0 : 1; };
  for (int64_t i = 0; i < out.numel(); ++i) {
    const HostTensor& chosen = holds[i * step(condition)] ? self : other;
    std::memcpy(static_cast<char*>(out.mutable_data()) + i * bytes,
                static_cast<const char*>(chosen.data()) + i * step(chosen) * bytes, bytes);
  }
}

void RunCast(KernelCall& call) {
  if (call.in[0]->dtype() == call.node.type().dtype()) {
    call.out[0] = *call.in[0];
    return;
  }
  CastInto(*call.in[0], call.NewResult());
}

void RunBitcast(KernelCall& call) {
  call.out[0] = HostTensor(call.node.type(), call.in[0]->storage());
}

/// The parts of complex numbers as a tensor of twice as many real ones.
HostTensor AsPairs(const HostTensor& tensor) {
  return HostTensor(Shape(RealOf(tensor.dtype()), {2 * tensor.numel()}), tensor.storage());
}

void RunComplex(KernelCall& call) {
  HostTensor out = AsPairs(call.NewResult());
  const Dims count = {call.node.type().numel()};
  for (int part : {0, 1}) CopyStrided(count, *call.in[part], {0, {1}}, out, {part, {2}});
}

template <int kPart>
void RunPart(KernelCall& call) {
  HostTensor& out = call.NewResult();
  CopyStrided({out.numel()}, AsPairs(*call.in[0]), {kPart, {2}}, out, {0, {1}});
}

constexpr KernelEntry kKernels[] = {{&ops::kCast, RunCast},
                                    {&ops::kBitcast, RunBitcast},
                                    {&ops::kComplex, RunComplex},
                                    {&ops::kReal, RunPart<0>},
                                    {&ops::kImag, RunPart<1>}};

}  // namespace

void RunElementwise(KernelCall& call) {
  if (call.node.op->scalar == ScalarFn::kSelect) return RunSelect(call);
  DType dtype = OperandDType(call);
  HostTensor a = Normalized(call, *call.in[0], dtype);
  HostTensor b = call.in.size() > 1 ? Normalized(call, *call.in[1], dtype) : a;
  HostTensor& out = call.NewResult();
  VisitWide(dtype, [&](auto zero) { RunBlocks<decltype(zero)>(call, dtype, a, b, out); });
}

std::span<const KernelEntry> ElementwiseKernels() { return kKernels; }

}  // namespace hammock::reference
