#define HAMMOCK_BODY inline
#include "hammock/compiler/scalar_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/throw.h"
#include "compiler/loops/computed_type.h"
#include "compiler/scalar/reduce_bodies.h"
#include "compiler/scalar/scalar_bodies.h"
#include "compiler/text/c_number.h"
#include "compiler/text/special_text.h"

namespace hammock::compiler {
namespace {

/// The dtype that values are computed in.
DType ComputedType(DType dtype) { return IsNarrowFloat(dtype) ? DType::kF32 : dtype; }

/// The value of a function's body, printed into `text`; operands are called x and y.
std::string PrintBody(CText& text, ScalarFn fn, DType dtype) {
  if (dtype == DType::kBool) {
    auto byte = [&](const char* name) {
      return CNumber<uint8_t>{&text, text.Value("unsigned char", name)};
    };
    auto truth = [&](const CNumber<uint8_t>& value) { return (value != Like(value, 0)).name; };
    CNumber<uint8_t> x = byte("x");
    switch (FormOf(fn)) {
      case ScalarForm::kUnary:
        return truth(UnaryBool(fn, x));
      case ScalarForm::kBinary:
        return truth(BinaryBool(fn, x, byte("y")));
      case ScalarForm::kTest:
        return Test(fn, x).name;
      case ScalarForm::kCompare:
        return Compare(fn, x, byte("y")).name;
      case ScalarForm::kNone:
      case ScalarForm::kSelect:
        break;
    }
    return {};
  }
  return VisitComputed(dtype, [&](auto zero) -> std::string {
    using N = CNumber<decltype(zero)>;
    N x{&text, "x"}, y{&text, "y"};
    switch (FormOf(fn)) {
      case ScalarForm::kUnary:
        return Unary(fn, x).name;
      case ScalarForm::kBinary:
        return Binary(fn, x, y).name;
      case ScalarForm::kTest:
        return Test(fn, x).name;
      case ScalarForm::kCompare:
        return Compare(fn, x, y).name;
      case ScalarForm::kNone:
      case ScalarForm::kSelect:
        break;
    }
    return {};
  });
}

/// Functions without a body, of doubles, by the libraries of devices or by special_functions.inc;
/// empty for others.
std::string_view LibraryText(ScalarFn fn) {
  switch (fn) {
    case ScalarFn::kFmod:
      return "return fmod(x, y);";
    case ScalarFn::kRemainder:
      return "double m = fmod(x, y); return m != 0 && (y < 0) != (m < 0) ? m + y : m;";
    case ScalarFn::kFloorDivide:
      return "if (y == 0) return x / y; double m = fmod(x, y); double q = (x - m) / y;"
             " if (m != 0 && (y < 0) != (m < 0)) q -= 1;"
             " if (q == 0) return copysign(0.0, x / y);"
             " double f = floor(q); return q - f > 0.5 ? f + 1 : f;";
    case ScalarFn::kLgamma:
      return "return lgamma(x);";
    case ScalarFn::kErfinv:
      return "return special_erfinv(x);";
    case ScalarFn::kDigamma:
      return "return special_digamma(x);";
    case ScalarFn::kErfcx:
      return "return special_erfcx(x);";
    case ScalarFn::kI0e:
      return "return special_i0e(x);";
    case ScalarFn::kI1e:
      return "return special_i1e(x);";
    case ScalarFn::kIgamma:
      return "return special_igamma(x, y);";
    case ScalarFn::kIgammac:
      return "return special_igammac(x, y);";
    case ScalarFn::kZeta:
      return "return special_zeta(x, y);";
    default:
      return "";
  }
}

/// Note [Special functions]: special_functions.inc is C++ for the reference, and text that is
/// compiled with each module which calls one of its functions.
std::string SpecialFunctions(const Dialect& dialect) {
  return fmt::format("#define SPECIAL_FUNCTION {}\n#define SPECIAL_LGAMMA lgamma\n{}",
                     dialect.function, SpecialFunctionFiles()[0].second);
}

/// The next number after x towards y, by the bits of its dtype.
std::string NextAfterText(const Dialect& dialect, const std::string& name, DType dtype) {
  const bool wide = dtype == DType::kF64, narrow = IsNarrowFloat(dtype);
  const std::string_view bits = narrow ? "unsigned short" : wide ? dialect.i64 : "int";
  const std::string half = fmt::format("{}", NameOf(dtype));
  const std::string to =
      narrow ? "to_" + half : std::string(wide ? dialect.double_bits : dialect.float_bits);
  const std::string from =
      narrow ? "from_" + half : std::string(wide ? dialect.bits_double : dialect.bits_float);
  return fmt::format(
      "{0} {1} {2}({1} x, {1} y) {{\n"
      "  if (x != x || y != y) return x + y;\n"
      "  if (x == y) return y;\n"
      "  if (x == 0) return copysign({5}(({3})1), y);\n"
      "  return {5}(({3})({4}(x) + ((x < y) == (x > 0) ? 1 : -1)));\n}}\n",
      dialect.function, ValueType(dialect, dtype), name, bits, to, from);
}

}  // namespace

bool HasText(ScalarFn fn, DType dtype) {
  if (fn == ScalarFn::kSelect || fn == ScalarFn::kNone) return true;
  if (HasBody(fn, dtype)) return true;
  if (fn == ScalarFn::kGcd) return IsIntegral(dtype) && dtype != DType::kBool;
  if (fn == ScalarFn::kNextafter) return IsFloat(dtype);
  return IsFloat(dtype) && !LibraryText(fn).empty();
}

std::string ScalarText::Call(const std::string& name, const std::vector<std::string>& operands) {
  return fmt::format("{}({})", name, fmt::join(operands, ", "));
}

void ScalarText::Define(const std::string& name, ScalarFn fn, DType dtype) {
  if (functions_.contains(name)) return;
  if (!HasBody(fn, dtype)) return DefineWithoutBody(name, fn, dtype);
  CText text(*dialect_);
  std::string result = PrintBody(text, fn, dtype);
  std::string_view type = ValueType(*dialect_, dtype);
  functions_[name] = fmt::format("{} {} {}({} x{}) {{\n{}  return {};\n}}\n", dialect_->function,
                                 IsTruth(fn) ? "bool" : type, name, type,
                                 ArityOf(fn) == 2 ? fmt::format(", {} y", type) : std::string(),
                                 text.lines(), result);
  tables_.insert(text.tables().begin(), text.tables().end());
}

void ScalarText::DefineWithoutBody(const std::string& name, ScalarFn fn, DType dtype) {
  std::string_view type = ValueType(*dialect_, dtype);
  if (fn == ScalarFn::kGcd) {
    bool is_signed = InfoOf(dtype).kind == DTypeKind::kSigned;
    functions_[name] = fmt::format(
        "{5} {0} {1}({0} x, {0} y) {{\n  {2} a = x, b = y;\n"
        "  while (b != 0) {{ {2} r = {3}a % b; a = b; b = r; }}\n  return ({0})({4});\n}}\n",
        type, name, is_signed ? dialect_->i64 : dialect_->u64, is_signed ? "b == -1 ? 0 : " : "",
        is_signed ? fmt::format("a < 0 ? -({})a : a", dialect_->u64) : "a", dialect_->function);
    return;
  }
  HAMMOCK_CHECK(HasText(fn, dtype), "no text for {} of {}", NameOf(fn), NameOf(dtype));
  if (fn == ScalarFn::kNextafter) {
    functions_[name] = NextAfterText(*dialect_, name, dtype);
    return;
  }
  if (LibraryText(fn).find("special_") != std::string_view::npos) {
    tables_.try_emplace("special functions", SpecialFunctions(*dialect_));
  }
  functions_[name] = fmt::format(
      "{6} double {0}_wide(double x{1}) {{ {2} }}\n"
      "{6} {3} {0}({3} x{4}) {{ return ({3}){0}_wide(x{5}); }}\n",
      name, ArityOf(fn) == 2 ? ", double y" : "", LibraryText(fn), type,
      ArityOf(fn) == 2 ? fmt::format(", {} y", type) : "", ArityOf(fn) == 2 ? ", y" : "",
      dialect_->function);
}

std::string ScalarText::Scalar(ScalarFn fn, DType dtype, const std::vector<std::string>& operands) {
  if (fn == ScalarFn::kSelect) {
    return fmt::format("({} ? {} : {})", operands[0], operands[1], operands[2]);
  }
  DType computed = fn == ScalarFn::kNextafter ? dtype : ComputedType(dtype);
  std::string name = fmt::format("{}_{}", NameOf(fn), NameOf(computed));
  Define(name, fn, computed);
  std::string result = Call(name, operands);
  if (IsTruth(fn) || !IsNarrowFloat(dtype)) return result;
  return FromMemory(ToMemory(result, dtype), dtype);
}

std::string ScalarText::FromMemory(const std::string& element, DType dtype) {
  if (dtype == DType::kBool) return fmt::format("({} != 0)", element);
  if (dtype == DType::kF16) return fmt::format("from_f16({})", element);
  if (dtype == DType::kBF16) return fmt::format("from_bf16({})", element);
  return element;
}

std::string ScalarText::ToMemory(const std::string& value, DType dtype) {
  if (dtype == DType::kBool) return fmt::format("(unsigned char)({})", value);
  if (dtype == DType::kF16) return fmt::format("to_f16({})", value);
  if (dtype == DType::kBF16) return fmt::format("to_bf16({})", value);
  return value;
}

std::string ScalarText::FromBits(const std::string& bits, DType dtype) {
  if (dtype == DType::kF64)
    return fmt::format("{}(({}){})", dialect_->bits_double, dialect_->i64, bits);
  if (dtype == DType::kF32) return fmt::format("{}((int){})", dialect_->bits_float, bits);
  return FromMemory(fmt::format("({}){}", MemoryType(*dialect_, dtype), bits), dtype);
}

std::string ScalarText::Cast(const std::string& value, DType from, DType to) {
  if (from == to) return value;
  if (to == DType::kBool) return fmt::format("({} != 0)", value);
  if (IsFloat(from) && !IsFloat(to)) {
    if (to == DType::kU64) return fmt::format("to_u64((double){})", value);
    return fmt::format("({})to_i64((double){})", ValueType(*dialect_, to), value);
  }
  std::string result = fmt::format("({})({})", ValueType(*dialect_, to), value);
  return IsNarrowFloat(to) ? FromMemory(ToMemory(result, to), to) : result;
}

std::string ScalarText::Bitcast(const std::string& value, DType from, DType to) {
  std::string bits = ToMemory(value, from);
  if (from == DType::kF32) bits = fmt::format("{}({})", dialect_->float_bits, bits);
  if (from == DType::kF64) bits = fmt::format("{}({})", dialect_->double_bits, bits);
  if (to == DType::kF32) return fmt::format("{}((int){})", dialect_->bits_float, bits);
  if (to == DType::kF64)
    return fmt::format("{}(({}){})", dialect_->bits_double, dialect_->i64, bits);
  return FromMemory(fmt::format("({}){}", MemoryType(*dialect_, to), bits), to);
}

std::string ScalarText::Computed(const Kernel& kernel, const Instr& instr,
                                 const std::function<std::string(int k)>& operand) {
  const DType dtype = kernel.instrs[static_cast<size_t>(instr.operands[0])].dtype;
  if (instr.kind == Instr::Kind::kCast) return Cast(operand(0), dtype, instr.dtype);
  if (instr.kind == Instr::Kind::kBitcast) return Bitcast(operand(0), dtype, instr.dtype);
  HAMMOCK_CHECK(instr.kind == Instr::Kind::kScalar, "an instruction that does not only compute");
  std::vector<std::string> operands;
  for (int k = 0; k < 3 && instr.operands[k] >= 0; ++k) operands.push_back(operand(k));
  return Scalar(instr.fn, dtype, operands);
}

std::string ScalarText::Combine(ReduceFn fn, DType dtype, const std::string& sum,
                                const std::string& x) {
  if (dtype == DType::kBool) {
    bool any = fn == ReduceFn::kAny || fn == ReduceFn::kMax;
    return fmt::format("(bool)({} {} {})", sum, any ? '|' : '&', x);
  }
  DType computed = ComputedType(dtype);
  std::string name = fmt::format("combine_{}_{}", NameOf(fn), NameOf(computed));
  if (!functions_.contains(name)) {
    CText text(*dialect_);
    std::string result = VisitComputed(computed, [&](auto zero) {
      using N = CNumber<decltype(zero)>;
      return compiler::Combine(fn, N{&text, "sum"}, N{&text, "x"}).name;
    });
    std::string_view type = ValueType(*dialect_, computed);
    functions_[name] = fmt::format("{4} {0} {1}({0} sum, {0} x) {{\n{2}  return {3};\n}}\n", type,
                                   name, text.lines(), result, dialect_->function);
  }
  return Call(name, {sum, x});
}

std::string ScalarText::Identity(ReduceFn fn, DType dtype) {
  if (dtype == DType::kBool) {
    return fn == ReduceFn::kAll || fn == ReduceFn::kMin ? "true" : "false";
  }
  return VisitComputed(dtype, [&](auto zero) {
    using T = decltype(zero);
    return fmt::format("({}){}", CTypeOf<T>(*dialect_), LiteralOf(*dialect_, IdentityOf<T>(fn)));
  });
}

std::string ScalarText::Functions() const {
  std::string text;
  for (const auto& [name, table] : tables_) text += table;
  for (const auto& [name, function] : functions_) text += function;
  return text;
}

}  // namespace hammock::compiler
