#pragma once
/// Numbers whose operations are printed as LLVM IR: the same set as `Number` in number.h.
///   IrNumber<float> x{&ir, 16, "%0"};
///   ir.Line("store <16 x float> {}, ptr %y, align 4", (x * x).name);

#include <bit>
#include <limits>
#include <string>

#include "backends/cpu/emit/llvm_text.h"
#include "compiler/scalar/number.h"

namespace hammock::compiler {

template <class T>
inline constexpr std::string_view kIrElementOf = sizeof(T) == 1   ? "i8"
                                                 : sizeof(T) == 2 ? "i16"
                                                 : sizeof(T) == 4 ? "i32"
                                                                  : "i64";
template <>
inline constexpr std::string_view kIrElementOf<float> = "float";
template <>
inline constexpr std::string_view kIrElementOf<double> = "double";

/// A truth value in each lane.
struct IrMask {
  IrText* text;
  int lanes;
  std::string name;

  std::string type() const { return IrType("i1", lanes); }
  friend IrMask operator&(const IrMask& a, const IrMask& b) { return a.Binary("and", b.name); }
  friend IrMask operator|(const IrMask& a, const IrMask& b) { return a.Binary("or", b.name); }
  friend IrMask operator^(const IrMask& a, const IrMask& b) { return a.Binary("xor", b.name); }
  friend IrMask operator!(const IrMask& a) {
    return a.Binary("xor", a.lanes == 1 ? "true" : "splat (i1 true)");
  }

 private:
  IrMask Binary(std::string_view op, std::string_view other) const {
    return {text, lanes, text->Value("{} {} {}, {}", op, type(), name, other)};
  }
};

template <class T>
struct IrNumber {
  using Element = T;
  using Mask = IrMask;
  template <class U>
  using Of = IrNumber<U>;

  IrText* text;
  int lanes;
  std::string name;

  static constexpr bool kFloat = std::floating_point<T>;
  static constexpr bool kSigned = std::signed_integral<T>;

  std::string type() const { return IrType(kIrElementOf<T>, lanes); }
  template <class U>
  IrNumber<U> As(std::string name) const {
    return {text, lanes, std::move(name)};
  }
  /// op type a, b
  IrNumber Binary(std::string_view op, const IrNumber& b) const {
    return As<T>(text->Value("{} {} {}, {}", op, type(), name, b.name));
  }
  template <class U>
  IrNumber<U> Convert(std::string_view op) const {
    return As<U>(text->Value("{} {} {} to {}", op, type(), name, IrType(kIrElementOf<U>, lanes)));
  }
  IrMask Compare(std::string_view ordered, std::string_view with_sign,
                 std::string_view without_sign, const IrNumber& b) const {
    return {text, lanes,
            text->Value("{} {} {} {}, {}", kFloat ? "fcmp" : "icmp",
                        kFloat    ? ordered
                        : kSigned ? with_sign
                                  : without_sign,
                        type(), name, b.name)};
  }

  friend IrNumber operator+(const IrNumber& a, const IrNumber& b) {
    return a.Binary(kFloat ? "fadd" : "add", b);
  }
  friend IrNumber operator-(const IrNumber& a, const IrNumber& b) {
    return a.Binary(kFloat ? "fsub" : "sub", b);
  }
  friend IrNumber operator*(const IrNumber& a, const IrNumber& b) {
    return a.Binary(kFloat ? "fmul" : "mul", b);
  }
  friend IrNumber operator/(const IrNumber& a, const IrNumber& b) {
    return a.Binary(kFloat ? "fdiv" : kSigned ? "sdiv" : "udiv", b);
  }
  friend IrNumber operator%(const IrNumber& a, const IrNumber& b) {
    return a.Binary(kSigned ? "srem" : "urem", b);
  }
  friend IrNumber operator-(const IrNumber& a) {
    if constexpr (kFloat) {
      return a.template As<T>(a.text->Value("fneg {} {}", a.type(), a.name));
    } else {
      return Like(a, 0) - a;
    }
  }
  friend IrNumber operator&(const IrNumber& a, const IrNumber& b) { return a.Binary("and", b); }
  friend IrNumber operator|(const IrNumber& a, const IrNumber& b) { return a.Binary("or", b); }
  friend IrNumber operator^(const IrNumber& a, const IrNumber& b) { return a.Binary("xor", b); }
  friend IrNumber operator<<(const IrNumber& a, const IrNumber& b) { return a.Binary("shl", b); }
  friend IrNumber operator>>(const IrNumber& a, const IrNumber& b) {
    return a.Binary(kSigned ? "ashr" : "lshr", b);
  }
  friend IrNumber operator<<(const IrNumber& a, int by) { return a << Like(a, T(by)); }
  friend IrNumber operator>>(const IrNumber& a, int by) { return a >> Like(a, T(by)); }

  friend IrMask operator==(const IrNumber& a, const IrNumber& b) {
    return a.Compare("oeq", "eq", "eq", b);
  }
  friend IrMask operator!=(const IrNumber& a, const IrNumber& b) {
    return a.Compare("une", "ne", "ne", b);
  }
  friend IrMask operator<(const IrNumber& a, const IrNumber& b) {
    return a.Compare("olt", "slt", "ult", b);
  }
  friend IrMask operator<=(const IrNumber& a, const IrNumber& b) {
    return a.Compare("ole", "sle", "ule", b);
  }
  friend IrMask operator>(const IrNumber& a, const IrNumber& b) {
    return a.Compare("ogt", "sgt", "ugt", b);
  }
  friend IrMask operator>=(const IrNumber& a, const IrNumber& b) {
    return a.Compare("oge", "sge", "uge", b);
  }
};

template <class T>
IrNumber<T> Like(const IrNumber<T>& x, std::type_identity_t<T> value) {
  using Wide = std::conditional_t<std::floating_point<T>, double, int64_t>;
  return x.template As<T>(IrConstant(kIrElementOf<T>, x.lanes, static_cast<Wide>(value)));
}

template <class T>
IrNumber<T> Select(const IrMask& condition, const IrNumber<T>& a, const IrNumber<T>& b) {
  std::string type = IrType(kIrElementOf<T>, condition.lanes);
  return {condition.text, condition.lanes,
          condition.text->Value("select {} {}, {} {}, {} {}", condition.type(), condition.name,
                                type, a.name, type, b.name)};
}

template <class T>
IrNumber<T> ShiftRightZeros(const IrNumber<T>& a, int by) {
  return a.Binary("lshr", Like(a, T(by)));
}

template <class T, class... Others>
IrNumber<T> CallIntrinsic(std::string_view name, const IrNumber<T>& a, const Others&... others) {
  return a.template As<T>(
      a.text->Intrinsic(name, kIrElementOf<T>, a.lanes, a.name, others.name...));
}

#define HAMMOCK_FLOAT_FUNCTION(Name, intrinsic) \
  template <std::floating_point T>              \
  IrNumber<T> Name(const IrNumber<T>& x) {      \
    return CallIntrinsic(intrinsic, x);         \
  }
HAMMOCK_FLOAT_FUNCTION(Sqrt, "sqrt")
HAMMOCK_FLOAT_FUNCTION(Floor, "floor")
HAMMOCK_FLOAT_FUNCTION(Ceil, "ceil")
HAMMOCK_FLOAT_FUNCTION(Trunc, "trunc")
HAMMOCK_FLOAT_FUNCTION(RoundEven, "roundeven")
HAMMOCK_FLOAT_FUNCTION(Abs, "fabs")
#undef HAMMOCK_FLOAT_FUNCTION

template <std::floating_point T>
IrNumber<T> Fma(const IrNumber<T>& a, const IrNumber<T>& b, const IrNumber<T>& c) {
  return CallIntrinsic("fma", a, b, c);
}
template <std::floating_point T>
IrNumber<T> CopySign(const IrNumber<T>& x, const IrNumber<T>& sign) {
  return CallIntrinsic("copysign", x, sign);
}
/// Whether vectors like `x` can be multiplied by powers of two in one instruction.
template <std::floating_point T>
bool HasScale(const IrNumber<T>& x) {
  return x.text->target().scale && x.lanes >= static_cast<int>(64 / sizeof(T));
}
/// x * 2^n of a whole n.
template <std::floating_point T>
IrNumber<T> Scale(const IrNumber<T>& x, const IrNumber<T>& n) {
  return x.template As<T>(x.text->Scale(kIrElementOf<T>, x.lanes, x.name, n.name));
}
template <std::floating_point T>
IrNumber<BitsOf<T>> Bits(const IrNumber<T>& x) {
  return x.template Convert<BitsOf<T>>("bitcast");
}
template <std::integral T>
auto FromBits(const IrNumber<T>& x) {
  return x.template Convert<std::conditional_t<sizeof(T) == 4, float, double>>("bitcast");
}
template <std::floating_point T>
IrNumber<BitsOf<T>> ToInt(const IrNumber<T>& x) {
  return x.template Convert<BitsOf<T>>("fptosi");
}
template <std::signed_integral T>
auto ToFloat(const IrNumber<T>& x) {
  return x.template Convert<std::conditional_t<sizeof(T) == 4, float, double>>("sitofp");
}
template <class To, std::integral T>
IrNumber<To> Resize(const IrNumber<T>& x) {
  if constexpr (sizeof(To) == sizeof(T)) {
    return x.template As<To>(x.name);
  } else {
    return x.template Convert<To>(sizeof(To) < sizeof(T)    ? "trunc"
                                  : std::signed_integral<T> ? "sext"
                                                            : "zext");
  }
}

inline IrNumber<uint16_t> ToHalfBits(const IrNumber<float>& x) {
  IrNumber<float> nan = CopySign(Like(x, std::numeric_limits<float>::quiet_NaN()), x);
  IrNumber<float> y = Select(x != x, nan, x);
  std::string half = IrType("half", x.lanes);
  std::string value = x.text->Value("fptrunc {} {} to {}", x.type(), y.name, half);
  std::string bits = x.text->Value("bitcast {} {} to {}", half, value, IrType("i16", x.lanes));
  return x.As<uint16_t>(bits);
}
inline IrNumber<float> FromHalfBits(const IrNumber<uint16_t>& x) {
  std::string half = IrType("half", x.lanes);
  std::string value = x.text->Value("bitcast {} {} to {}", x.type(), x.name, half);
  return x.As<float>(x.text->Value("fpext {} {} to {}", half, value, IrType("float", x.lanes)));
}
template <std::integral T, size_t kSize>
IrNumber<double> Lookup(const IrNumber<T>& index, const double (&table)[kSize]) {
  return index.template As<double>(index.text->Lookup(table, index.lanes, index.name));
}
inline IrNumber<double> Widen(const IrNumber<float>& x) { return x.Convert<double>("fpext"); }
inline IrNumber<float> Narrow(const IrNumber<double>& x) { return x.Convert<float>("fptrunc"); }

}  // namespace hammock::compiler
