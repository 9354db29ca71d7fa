#pragma once
/// Numbers whose operations are printed as text of a C-like language: the same set as `Number` in
/// number.h, so that scalar bodies print themselves (Note [Scalar bodies] in scalar_bodies.h). The
/// text is compiled without contraction.

#include <fmt/format.h>

#include <concepts>
#include <string>

#include "compiler/scalar/number.h"
#include "compiler/text/c_text.h"

namespace hammock::compiler {

struct CMask {
  CText* text;
  std::string name;

  friend CMask operator&(const CMask& a, const CMask& b) { return a.Binary("&", b); }
  friend CMask operator|(const CMask& a, const CMask& b) { return a.Binary("|", b); }
  friend CMask operator^(const CMask& a, const CMask& b) { return a.Binary("^", b); }
  friend CMask operator!(const CMask& a) { return {a.text, a.text->Value("bool", "!" + a.name)}; }

 private:
  CMask Binary(std::string_view op, const CMask& b) const {
    return {text, text->Value("bool", fmt::format("{} {} {}", name, op, b.name))};
  }
};

template <class T>
struct CNumber {
  using Element = T;
  using Mask = CMask;
  template <class U>
  using Of = CNumber<U>;

  CText* text;
  std::string name;

  static constexpr bool kFloat = std::floating_point<T>;

  template <class U>
  CNumber<U> As(const std::string& expression) const {
    return {text, text->Value(text->TypeOf<U>(), expression)};
  }
  /// Integers are computed unsigned, where nothing overflows.
  CNumber Arithmetic(std::string_view op, const CNumber& b) const {
    if constexpr (kFloat || std::unsigned_integral<T>) {
      return As<T>(fmt::format("{} {} {}", name, op, b.name));
    } else {
      const std::string_view wide =
          sizeof(T) == 8 ? text->TypeOf<uint64_t>() : text->TypeOf<uint32_t>();
      return As<T>(
          fmt::format("({})(({}){} {} ({}){})", text->TypeOf<T>(), wide, name, op, wide, b.name));
    }
  }
  CNumber Plain(std::string_view op, const CNumber& b) const {
    return As<T>(fmt::format("{} {} {}", name, op, b.name));
  }
  CMask Compare(std::string_view op, const CNumber& b) const {
    return {text, text->Value("bool", fmt::format("{} {} {}", name, op, b.name))};
  }

  friend CNumber operator+(const CNumber& a, const CNumber& b) { return a.Arithmetic("+", b); }
  friend CNumber operator-(const CNumber& a, const CNumber& b) { return a.Arithmetic("-", b); }
  friend CNumber operator*(const CNumber& a, const CNumber& b) { return a.Arithmetic("*", b); }
  friend CNumber operator-(const CNumber& a) {
    if constexpr (kFloat) return a.template As<T>("-" + a.name);
    return Like(a, 0) - a;
  }
  friend CNumber operator/(const CNumber& a, const CNumber& b) { return a.Plain("/", b); }
  friend CNumber operator%(const CNumber& a, const CNumber& b) { return a.Plain("%", b); }
  friend CNumber operator&(const CNumber& a, const CNumber& b) { return a.Plain("&", b); }
  friend CNumber operator|(const CNumber& a, const CNumber& b) { return a.Plain("|", b); }
  friend CNumber operator^(const CNumber& a, const CNumber& b) { return a.Plain("^", b); }
  friend CNumber operator<<(const CNumber& a, const CNumber& b) { return a.Arithmetic("<<", b); }
  friend CNumber operator>>(const CNumber& a, const CNumber& b) { return a.Plain(">>", b); }
  friend CNumber operator<<(const CNumber& a, int by) { return a << Like(a, T(by)); }
  friend CNumber operator>>(const CNumber& a, int by) { return a >> Like(a, T(by)); }

  friend CMask operator==(const CNumber& a, const CNumber& b) { return a.Compare("==", b); }
  friend CMask operator!=(const CNumber& a, const CNumber& b) { return a.Compare("!=", b); }
  friend CMask operator<(const CNumber& a, const CNumber& b) { return a.Compare("<", b); }
  friend CMask operator<=(const CNumber& a, const CNumber& b) { return a.Compare("<=", b); }
  friend CMask operator>(const CNumber& a, const CNumber& b) { return a.Compare(">", b); }
  friend CMask operator>=(const CNumber& a, const CNumber& b) { return a.Compare(">=", b); }
};

template <class T>
std::string LiteralOf(const Dialect& dialect, T value) {
  if constexpr (std::floating_point<T>) {
    return CLiteral(dialect, value);
  } else if constexpr (std::signed_integral<T>) {
    return CLiteral(dialect, static_cast<int64_t>(value));
  } else {
    return CLiteral(dialect, static_cast<uint64_t>(value));
  }
}

template <class T>
CNumber<T> Like(const CNumber<T>& x, std::type_identity_t<T> value) {
  return {x.text,
          fmt::format("({}){}", x.text->template TypeOf<T>(), LiteralOf(x.text->dialect(), value))};
}

/// Branches, where scalar_wide.h computes both and selects.
template <class T, class F>
void Unless(const CMask& usual, CNumber<T>& a, CNumber<T>& b, F rare) {
  a = a.template As<T>(a.name);
  b = b.template As<T>(b.name);
  a.text->Line(fmt::format("if (!{}) {{", usual.name));
  CNumber<T> rare_a = a, rare_b = b;
  rare(rare_a, rare_b);
  a.text->Line(fmt::format("{} = {}; {} = {};", a.name, rare_a.name, b.name, rare_b.name));
  a.text->Line("}");
}
template <class T>
CNumber<T> Select(const CMask& condition, const CNumber<T>& a, const CNumber<T>& b) {
  return {condition.text,
          condition.text->Value(condition.text->TypeOf<T>(),
                                fmt::format("{} ? {} : {}", condition.name, a.name, b.name))};
}

template <class T>
CNumber<T> ShiftRightZeros(const CNumber<T>& a, int by) {
  return a.template As<T>(fmt::format("({})(({}){} >> {})", a.text->template TypeOf<T>(),
                                      a.text->template TypeOf<std::make_unsigned_t<T>>(), a.name,
                                      by));
}

#define HAMMOCK_FLOAT_FUNCTION(Name, function)                                        \
  inline CNumber<float> Name(const CNumber<float>& x) {                               \
    return x.As<float>(                                                               \
        fmt::format("{}{}({})", function, x.text->dialect().float_function, x.name)); \
  }                                                                                   \
  inline CNumber<double> Name(const CNumber<double>& x) {                             \
    return x.As<double>(fmt::format("{}({})", function, x.name));                     \
  }
HAMMOCK_FLOAT_FUNCTION(Sqrt, "sqrt")
HAMMOCK_FLOAT_FUNCTION(Floor, "floor")
HAMMOCK_FLOAT_FUNCTION(Ceil, "ceil")
HAMMOCK_FLOAT_FUNCTION(Trunc, "trunc")
HAMMOCK_FLOAT_FUNCTION(RoundEven, "rint")
HAMMOCK_FLOAT_FUNCTION(Abs, "fabs")
#undef HAMMOCK_FLOAT_FUNCTION

template <std::floating_point T>
CNumber<T> Fma(const CNumber<T>& a, const CNumber<T>& b, const CNumber<T>& c) {
  return a.template As<T>(
      fmt::format("fma{}({}, {}, {})", a.text->template FunctionEnd<T>(), a.name, b.name, c.name));
}
template <std::floating_point T>
CNumber<T> CopySign(const CNumber<T>& x, const CNumber<T>& sign) {
  return x.template As<T>(
      fmt::format("copysign{}({}, {})", x.text->template FunctionEnd<T>(), x.name, sign.name));
}
template <std::floating_point T>
CNumber<BitsOf<T>> Bits(const CNumber<T>& x) {
  return x.template As<BitsOf<T>>(fmt::format(
      "{}({})", sizeof(T) == 4 ? x.text->dialect().float_bits : x.text->dialect().double_bits,
      x.name));
}
template <std::integral T>
auto FromBits(const CNumber<T>& x) {
  using Float = std::conditional_t<sizeof(T) == 4, float, double>;
  const Dialect& dialect = x.text->dialect();
  return x.template As<Float>(
      sizeof(T) == 4 ? fmt::format("{}((int){})", dialect.bits_float, x.name)
                     : fmt::format("{}(({}){})", dialect.bits_double, dialect.i64, x.name));
}
template <std::floating_point T>
CNumber<BitsOf<T>> ToInt(const CNumber<T>& x) {
  using Int = BitsOf<T>;
  return x.template As<Int>(fmt::format("({}){}", x.text->template TypeOf<Int>(), x.name));
}
template <std::signed_integral T>
auto ToFloat(const CNumber<T>& x) {
  using Float = std::conditional_t<sizeof(T) == 4, float, double>;
  return x.template As<Float>(fmt::format("({}){}", x.text->template TypeOf<Float>(), x.name));
}
template <class To, std::integral T>
CNumber<To> Resize(const CNumber<T>& x) {
  return x.template As<To>(fmt::format("({}){}", x.text->template TypeOf<To>(), x.name));
}
template <std::integral T, size_t kSize>
CNumber<double> Lookup(const CNumber<T>& index, const double (&table)[kSize]) {
  return index.template As<double>(fmt::format("{}[{}]", index.text->Table(table), index.name));
}
inline CNumber<double> Widen(const CNumber<float>& x) { return x.As<double>("(double)" + x.name); }
inline CNumber<float> Narrow(const CNumber<double>& x) { return x.As<float>("(float)" + x.name); }

}  // namespace hammock::compiler
