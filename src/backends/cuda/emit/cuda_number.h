#pragma once
/// Numbers whose operations are printed as CUDA C++: the same set as `Number` in number.h, so that
/// scalar bodies print themselves (Note [Scalar bodies] in scalar_bodies.h). The text is compiled
/// without contraction.

#include <fmt/format.h>

#include <concepts>
#include <string>

#include "backends/cuda/emit/cuda_text.h"
#include "compiler/scalar/number.h"

namespace hammock::cuda {

struct CudaMask {
  CudaText* text;
  std::string name;

  friend CudaMask operator&(const CudaMask& a, const CudaMask& b) { return a.Binary("&", b); }
  friend CudaMask operator|(const CudaMask& a, const CudaMask& b) { return a.Binary("|", b); }
  friend CudaMask operator^(const CudaMask& a, const CudaMask& b) { return a.Binary("^", b); }
  friend CudaMask operator!(const CudaMask& a) {
    return {a.text, a.text->Value("bool", "!" + a.name)};
  }

 private:
  CudaMask Binary(std::string_view op, const CudaMask& b) const {
    return {text, text->Value("bool", fmt::format("{} {} {}", name, op, b.name))};
  }
};

template <class T>
struct CudaNumber {
  using Element = T;
  using Mask = CudaMask;
  template <class U>
  using Of = CudaNumber<U>;

  CudaText* text;
  std::string name;

  static constexpr bool kFloat = std::floating_point<T>;

  template <class U>
  CudaNumber<U> As(const std::string& expression) const {
    return {text, text->Value(CudaTypeOf<U>(), expression)};
  }
  /// Integers are computed unsigned, where nothing overflows.
  CudaNumber Arithmetic(std::string_view op, const CudaNumber& b) const {
    if constexpr (kFloat || std::unsigned_integral<T>) {
      return As<T>(fmt::format("{} {} {}", name, op, b.name));
    } else {
      constexpr std::string_view kUnsigned =
          sizeof(T) == 8 ? CudaTypeOf<uint64_t>() : CudaTypeOf<uint32_t>();
      return As<T>(fmt::format("({})(({}){} {} ({}){})", CudaTypeOf<T>(), kUnsigned, name, op,
                               kUnsigned, b.name));
    }
  }
  CudaNumber Plain(std::string_view op, const CudaNumber& b) const {
    return As<T>(fmt::format("{} {} {}", name, op, b.name));
  }
  CudaMask Compare(std::string_view op, const CudaNumber& b) const {
    return {text, text->Value("bool", fmt::format("{} {} {}", name, op, b.name))};
  }

  friend CudaNumber operator+(const CudaNumber& a, const CudaNumber& b) {
    return a.Arithmetic("+", b);
  }
  friend CudaNumber operator-(const CudaNumber& a, const CudaNumber& b) {
    return a.Arithmetic("-", b);
  }
  friend CudaNumber operator*(const CudaNumber& a, const CudaNumber& b) {
    return a.Arithmetic("*", b);
  }
  friend CudaNumber operator-(const CudaNumber& a) {
    if constexpr (kFloat) return a.template As<T>("-" + a.name);
    return Like(a, 0) - a;
  }
  friend CudaNumber operator/(const CudaNumber& a, const CudaNumber& b) { return a.Plain("/", b); }
  friend CudaNumber operator%(const CudaNumber& a, const CudaNumber& b) { return a.Plain("%", b); }
  friend CudaNumber operator&(const CudaNumber& a, const CudaNumber& b) { return a.Plain("&", b); }
  friend CudaNumber operator|(const CudaNumber& a, const CudaNumber& b) { return a.Plain("|", b); }
  friend CudaNumber operator^(const CudaNumber& a, const CudaNumber& b) { return a.Plain("^", b); }
  friend CudaNumber operator<<(const CudaNumber& a, const CudaNumber& b) {
    return a.Arithmetic("<<", b);
  }
  friend CudaNumber operator>>(const CudaNumber& a, const CudaNumber& b) {
    return a.Plain(">>", b);
  }
  friend CudaNumber operator<<(const CudaNumber& a, int by) { return a << Like(a, T(by)); }
  friend CudaNumber operator>>(const CudaNumber& a, int by) { return a >> Like(a, T(by)); }

  friend CudaMask operator==(const CudaNumber& a, const CudaNumber& b) {
    return a.Compare("==", b);
  }
  friend CudaMask operator!=(const CudaNumber& a, const CudaNumber& b) {
    return a.Compare("!=", b);
  }
  friend CudaMask operator<(const CudaNumber& a, const CudaNumber& b) { return a.Compare("<", b); }
  friend CudaMask operator<=(const CudaNumber& a, const CudaNumber& b) {
    return a.Compare("<=", b);
  }
  friend CudaMask operator>(const CudaNumber& a, const CudaNumber& b) { return a.Compare(">", b); }
  friend CudaMask operator>=(const CudaNumber& a, const CudaNumber& b) {
    return a.Compare(">=", b);
  }
};

template <class T>
std::string LiteralOf(T value) {
  if constexpr (std::floating_point<T>) {
    return CudaLiteral(value);
  } else if constexpr (std::signed_integral<T>) {
    return CudaLiteral(static_cast<int64_t>(value));
  } else {
    return CudaLiteral(static_cast<uint64_t>(value));
  }
}

template <class T>
CudaNumber<T> Like(const CudaNumber<T>& x, std::type_identity_t<T> value) {
  return {x.text, fmt::format("({}){}", CudaTypeOf<T>(), LiteralOf(value))};
}

/// Branches, where scalar_wide.h computes both and selects.
template <class T, class F>
void Unless(const CudaMask& usual, CudaNumber<T>& a, CudaNumber<T>& b, F rare) {
  a = a.template As<T>(a.name);
  b = b.template As<T>(b.name);
  a.text->Line(fmt::format("if (!{}) {{", usual.name));
  CudaNumber<T> rare_a = a, rare_b = b;
  rare(rare_a, rare_b);
  a.text->Line(fmt::format("{} = {}; {} = {};", a.name, rare_a.name, b.name, rare_b.name));
  a.text->Line("}");
}
template <class T>
CudaNumber<T> Select(const CudaMask& condition, const CudaNumber<T>& a, const CudaNumber<T>& b) {
  return {condition.text,
          condition.text->Value(CudaTypeOf<T>(),
                                fmt::format("{} ? {} : {}", condition.name, a.name, b.name))};
}

template <class T>
CudaNumber<T> ShiftRightZeros(const CudaNumber<T>& a, int by) {
  return a.template As<T>(fmt::format("({})(({}){} >> {})", CudaTypeOf<T>(),
                                      CudaTypeOf<std::make_unsigned_t<T>>(), a.name, by));
}

#define HAMMOCK_FLOAT_FUNCTION(Name, function)                    \
  inline CudaNumber<float> Name(const CudaNumber<float>& x) {     \
    return x.As<float>(fmt::format("{}f({})", function, x.name)); \
  }                                                               \
  inline CudaNumber<double> Name(const CudaNumber<double>& x) {   \
    return x.As<double>(fmt::format("{}({})", function, x.name)); \
  }
HAMMOCK_FLOAT_FUNCTION(Sqrt, "sqrt")
HAMMOCK_FLOAT_FUNCTION(Floor, "floor")
HAMMOCK_FLOAT_FUNCTION(Ceil, "ceil")
HAMMOCK_FLOAT_FUNCTION(Trunc, "trunc")
HAMMOCK_FLOAT_FUNCTION(RoundEven, "rint")
HAMMOCK_FLOAT_FUNCTION(Abs, "fabs")
#undef HAMMOCK_FLOAT_FUNCTION

template <std::floating_point T>
CudaNumber<T> Fma(const CudaNumber<T>& a, const CudaNumber<T>& b, const CudaNumber<T>& c) {
  return a.template As<T>(
      fmt::format("fma{}({}, {}, {})", sizeof(T) == 4 ? "f" : "", a.name, b.name, c.name));
}
template <std::floating_point T>
CudaNumber<T> CopySign(const CudaNumber<T>& x, const CudaNumber<T>& sign) {
  return x.template As<T>(
      fmt::format("copysign{}({}, {})", sizeof(T) == 4 ? "f" : "", x.name, sign.name));
}
template <std::floating_point T>
CudaNumber<compiler::BitsOf<T>> Bits(const CudaNumber<T>& x) {
  return x.template As<compiler::BitsOf<T>>(
      fmt::format("{}({})", sizeof(T) == 4 ? "__float_as_int" : "__double_as_longlong", x.name));
}
template <std::integral T>
auto FromBits(const CudaNumber<T>& x) {
  using Float = std::conditional_t<sizeof(T) == 4, float, double>;
  return x.template As<Float>(sizeof(T) == 4
                                  ? fmt::format("__int_as_float((int){})", x.name)
                                  : fmt::format("__longlong_as_double((long long){})", x.name));
}
template <std::floating_point T>
CudaNumber<compiler::BitsOf<T>> ToInt(const CudaNumber<T>& x) {
  using Int = compiler::BitsOf<T>;
  return x.template As<Int>(fmt::format("({}){}", CudaTypeOf<Int>(), x.name));
}
template <std::signed_integral T>
auto ToFloat(const CudaNumber<T>& x) {
  using Float = std::conditional_t<sizeof(T) == 4, float, double>;
  return x.template As<Float>(fmt::format("({}){}", CudaTypeOf<Float>(), x.name));
}
template <class To, std::integral T>
CudaNumber<To> Resize(const CudaNumber<T>& x) {
  return x.template As<To>(fmt::format("({}){}", CudaTypeOf<To>(), x.name));
}
template <std::integral T, size_t kSize>
CudaNumber<double> Lookup(const CudaNumber<T>& index, const double (&table)[kSize]) {
  return index.template As<double>(fmt::format("{}[{}]", index.text->Table(table), index.name));
}
inline CudaNumber<double> Widen(const CudaNumber<float>& x) {
  return x.As<double>("(double)" + x.name);
}
inline CudaNumber<float> Narrow(const CudaNumber<double>& x) {
  return x.As<float>("(float)" + x.name);
}

}  // namespace hammock::cuda
