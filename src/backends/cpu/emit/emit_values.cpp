#define HAMMOCK_BODY inline
#include "backends/cpu/emit/emit_values.h"

#include <limits>

#include "backends/cpu/emit/kernel_call.h"
#include "backends/cpu/emit/llvm_number.h"
#include "base/throw.h"
#include "compiler/loops/computed_type.h"
#include "compiler/scalar/reduce_bodies.h"
#include "compiler/scalar/scalar_bodies.h"

namespace hammock::cpu {

using compiler::Instr;
using compiler::IrConstant;
using compiler::IrNumber;
using compiler::IrType;
using compiler::IsNarrowFloat;
using compiler::ReduceFn;
using compiler::VisitComputed;

std::string_view RegisterElement(DType dtype) {
  if (dtype == DType::kBool) return "i1";
  if (IsNarrowFloat(dtype)) return "float";
  return compiler::IrElement(dtype);
}

std::string_view MemoryElement(DType dtype) {
  if (dtype == DType::kBool) return "i8";
  if (dtype == DType::kBF16) return "i16";
  return compiler::IrElement(dtype);
}

std::string ValueEmitter::TypeOf(DType dtype, int lanes) {
  return IrType(RegisterElement(dtype), lanes);
}

std::string ValueEmitter::FromBits(const std::string& bits, DType dtype) {
  int width = InfoOf(dtype).bits;
  std::string narrow = width == 64 ? bits : ir_.Value("trunc i64 {} to i{}", bits, width);
  std::string_view element = MemoryElement(dtype);
  if (IsFloat(dtype) && dtype != DType::kBF16) {
    narrow = ir_.Value("bitcast i{} {} to {}", width, narrow, element);
  }
  return FromMemory(narrow, dtype, 1);
}

std::string ValueEmitter::Splat(const std::string& value, DType dtype, int lanes) {
  std::string type = TypeOf(dtype, lanes);
  std::string one =
      ir_.Value("insertelement {} poison, {} {}, i64 0", type, RegisterElement(dtype), value);
  return ir_.Value("shufflevector {} {}, {} poison, <{} x i32> zeroinitializer", type, one, type,
                   lanes);
}

std::string ValueEmitter::FromMemory(const std::string& value, DType dtype, int lanes) {
  if (dtype == DType::kBool) {
    return ir_.Value("icmp ne {} {}, {}", IrType("i8", lanes), value,
                     IrConstant("i8", lanes, int64_t{0}));
  }
  if (dtype == DType::kF16) return Convert("fpext", "half", value, "float", lanes);
  if (dtype == DType::kBF16) {
    return compiler::FromBFloat16Bits(IrNumber<uint16_t>{&ir_, lanes, value}).name;
  }
  return value;
}

std::string ValueEmitter::ToMemory(const std::string& value, DType dtype, int lanes) {
  if (dtype == DType::kBool) return Convert("zext", "i1", value, "i8", lanes);
  if (dtype == DType::kF16) return Convert("fptrunc", "float", value, "half", lanes);
  if (dtype == DType::kBF16) {
    return compiler::ToBFloat16Bits(IrNumber<float>{&ir_, lanes, value}).name;
  }
  return value;
}

std::string ValueEmitter::Rounded(const std::string& value, DType dtype, int lanes) {
  return IsNarrowFloat(dtype) ? FromMemory(ToMemory(value, dtype, lanes), dtype, lanes) : value;
}

std::string ValueEmitter::Scalar(const Instr& instr, DType operand_dtype, int lanes,
                                 const std::vector<std::string>& operands) {
  if (instr.fn == ScalarFn::kSelect) {
    std::string type = TypeOf(instr.dtype, lanes);
    return ir_.Value("select {} {}, {} {}, {} {}", IrType("i1", lanes), operands[0], type,
                     operands[1], type, operands[2]);
  }
  if (!compiler::HasBody(instr.fn, operand_dtype)) {
    return LaneCalls(instr, operand_dtype, lanes, operands);
  }
  if (operand_dtype == DType::kBool) return BoolScalar(instr, lanes, operands);
  return VisitComputed(operand_dtype, [&](auto zero) {
    using N = IrNumber<decltype(zero)>;
    N x{&ir_, lanes, operands[0]};
    N y{&ir_, lanes, operands.size() > 1 ? operands[1] : operands[0]};
    switch (FormOf(instr.fn)) {
      case ScalarForm::kUnary:
        return Rounded(compiler::Unary(instr.fn, x).name, instr.dtype, lanes);
      case ScalarForm::kBinary:
        return Rounded(compiler::Binary(instr.fn, x, y).name, instr.dtype, lanes);
      case ScalarForm::kTest:
        return compiler::Test(instr.fn, x).name;
      case ScalarForm::kCompare:
        return compiler::Compare(instr.fn, x, y).name;
      case ScalarForm::kNone:
      case ScalarForm::kSelect:
        break;
    }
    return std::string();
  });
}

std::string ValueEmitter::HasExactInverse(const std::string& value, DType dtype) {
  bool wide = dtype == DType::kF64;
  std::string_view integer = wide ? "i64" : "i32";
  std::string bits = ir_.Value("bitcast {} {} to {}", RegisterElement(dtype), value, integer);
  std::string fraction = ir_.Value("and {} {}, {}", integer, bits,
                                   wide ? (int64_t{1} << 52) - 1 : (int64_t{1} << 23) - 1);
  std::string none = ir_.Value("icmp eq {} {}, 0", integer, fraction);
  std::string shifted = ir_.Value("lshr {} {}, {}", integer, bits, wide ? 52 : 23);
  std::string exponent = ir_.Value("and {} {}, {}", integer, shifted, wide ? 2047 : 255);
  std::string above = ir_.Value("sub {} {}, 1", integer, exponent);
  std::string normal = ir_.Value("icmp ult {} {}, {}", integer, above, wide ? 2045 : 253);
  return ir_.Value("and i1 {}, {}", none, normal);
}

std::string ValueEmitter::Cast(const std::string& value, DType from, DType to, int lanes) {
  if (from == to) return value;
  std::string_view source = RegisterElement(from);
  std::string_view target = RegisterElement(to);
  if (to == DType::kBool) {
    return ir_.Value(
        "{} {} {}, {}", IsFloat(from) ? "fcmp une" : "icmp ne", IrType(source, lanes), value,
        IsFloat(from) ? IrConstant(source, lanes, 0.0) : IrConstant(source, lanes, int64_t{0}));
  }
  if (IsFloat(from) && IsFloat(to)) return FloatCast(value, from, to, lanes);
  if (IsFloat(from)) return FloatToInt(value, from, to, lanes);
  bool with_sign = InfoOf(from).kind == DTypeKind::kSigned;
  if (IsFloat(to)) {
    return Rounded(Convert(with_sign ? "sitofp" : "uitofp", source, value, target, lanes), to,
                   lanes);
  }
  int from_bits = from == DType::kBool ? 1 : InfoOf(from).bits;
  int to_bits = InfoOf(to).bits;
  if (from_bits == to_bits) return value;
  return Convert(to_bits < from_bits ? "trunc"
                 : with_sign         ? "sext"
                                     : "zext",
                 source, value, target, lanes);
}

std::string ValueEmitter::Bitcast(const std::string& value, DType from, DType to, int lanes) {
  std::string bits = ToMemory(value, from, lanes);
  if (MemoryElement(from) != MemoryElement(to)) {
    bits = Convert("bitcast", MemoryElement(from), bits, MemoryElement(to), lanes);
  }
  return FromMemory(bits, to, lanes);
}

std::string ValueEmitter::Combine(ReduceFn fn, DType dtype, int lanes, const std::string& sum,
                                  const std::string& x) {
  if (dtype == DType::kBool) {
    return ir_.Value("{} {} {}, {}", fn == ReduceFn::kAny || fn == ReduceFn::kMax ? "or" : "and",
                     IrType("i1", lanes), sum, x);
  }
  return VisitComputed(dtype, [&](auto zero) {
    using N = IrNumber<decltype(zero)>;
    return compiler::Combine(fn, N{&ir_, lanes, sum}, N{&ir_, lanes, x}).name;
  });
}

std::string ValueEmitter::Extreme(ReduceFn fn, DType dtype, int lanes, const std::string& sum,
                                  const std::string& x) {
  return VisitComputed(dtype, [&](auto zero) {
    using N = IrNumber<decltype(zero)>;
    return compiler::Extreme(fn, N{&ir_, lanes, sum}, N{&ir_, lanes, x}).name;
  });
}

std::string ValueEmitter::AnyNan(const std::string& value, DType dtype, int lanes) {
  std::string nans = ir_.Value("fcmp uno {} {}, {}", TypeOf(dtype, lanes), value, value);
  std::string bits = ir_.Value("bitcast <{} x i1> {} to i{}", lanes, nans, lanes);
  return ir_.Value("icmp ne i{} {}, 0", lanes, bits);
}

std::string ValueEmitter::Identity(ReduceFn fn, DType dtype, int lanes) {
  if (dtype == DType::kBool) {
    bool value = fn == ReduceFn::kAll || fn == ReduceFn::kMin;
    return IrConstant("i1", lanes, int64_t{value});
  }
  return VisitComputed(dtype, [&](auto zero) {
    using T = decltype(zero);
    using Wide = std::conditional_t<std::floating_point<T>, double, int64_t>;
    return IrConstant(compiler::kIrElementOf<T>, lanes,
                      static_cast<Wide>(compiler::IdentityOf<T>(fn)));
  });
}

std::string ValueEmitter::Convert(std::string_view op, std::string_view from,
                                  const std::string& value, std::string_view to, int lanes) {
  return ir_.Value("{} {} {} to {}", op, IrType(from, lanes), value, IrType(to, lanes));
}

std::string ValueEmitter::FloatCast(const std::string& value, DType from, DType to, int lanes) {
  if (from == DType::kF64) {
    return Rounded(Convert("fptrunc", "double", value, "float", lanes), to, lanes);
  }
  if (to == DType::kF64) return Convert("fpext", "float", value, "double", lanes);
  return Rounded(value, to, lanes);
}

/// The low 32 bits of the whole number, without a wider type: what is left of f32 behind the
/// nearest multiple of 2^32 is exact. Numbers that i64 does not hold give 0.
std::string ValueEmitter::FloatToLowBits(const std::string& value, int lanes) {
  const std::string type = IrType("float", lanes), flags = IrType("i1", lanes);
  auto number = [&](double x) { return IrConstant("float", lanes, x); };
  auto select = [&](const std::string& holds, const std::string& a, const std::string& b) {
    return ir_.Value("select {} {}, {} {}, {} {}", flags, holds, type, a, type, b);
  };
  const std::string size = ir_.Intrinsic("fabs", "float", lanes, value);
  const std::string fits = ir_.Value("fcmp olt {} {}, {}", type, size, number(0x1p63));
  const std::string safe = select(fits, value, number(0));
  const std::string scaled = ir_.Value("fmul {} {}, {}", type, safe, number(0x1p-32));
  const std::string turns = ir_.Intrinsic("rint", "float", lanes, scaled);
  const std::string whole = ir_.Value("fmul {} {}, {}", type, turns, number(0x1p32));
  const std::string rest = ir_.Value("fsub {} {}, {}", type, safe, whole);
  const std::string half = ir_.Value("fcmp oeq {} {}, {}", type, rest, number(0x1p31));
  return Convert("fptosi", "float", select(half, number(-0x1p31), rest), "i32", lanes);
}

std::string ValueEmitter::FloatToInt(const std::string& value, DType from, DType to, int lanes) {
  if (from != DType::kF64 && InfoOf(to).bits <= 32) {
    const std::string bits = FloatToLowBits(value, lanes);
    return InfoOf(to).bits == 32 ? bits : Convert("trunc", "i32", bits, RegisterElement(to), lanes);
  }
  std::string wide =
      from == DType::kF64 ? value : Convert("fpext", "float", value, "double", lanes);
  std::string type = IrType("double", lanes);
  auto within = [&](double low, double high) {
    std::string above =
        ir_.Value("fcmp oge {} {}, {}", type, wide, IrConstant("double", lanes, low));
    std::string below =
        ir_.Value("fcmp olt {} {}, {}", type, wide, IrConstant("double", lanes, high));
    return ir_.Value("and {} {}, {}", IrType("i1", lanes), above, below);
  };
  auto convert = [&](const std::string& holds, std::string_view op, const std::string& otherwise) {
    std::string safe = ir_.Value("select {} {}, {} {}, {} {}", IrType("i1", lanes), holds, type,
                                 wide, type, IrConstant("double", lanes, 0.0));
    std::string number = Convert(op, "double", safe, "i64", lanes);
    std::string i64 = IrType("i64", lanes);
    return ir_.Value("select {} {}, {} {}, {} {}", IrType("i1", lanes), holds, i64, number, i64,
                     otherwise);
  };
  std::string result = convert(within(-0x1p63, 0x1p63), "fptosi",
                               IrConstant("i64", lanes, std::numeric_limits<int64_t>::min()));
  if (to == DType::kU64) result = convert(within(0x1p63, 0x1p64), "fptoui", result);
  if (InfoOf(to).bits == 64) return result;
  return Convert("trunc", "i64", result, RegisterElement(to), lanes);
}

std::string ValueEmitter::BoolScalar(const Instr& instr, int lanes,
                                     const std::vector<std::string>& operands) {
  auto byte = [&](const std::string& value) {
    return IrNumber<uint8_t>{&ir_, lanes, Convert("zext", "i1", value, "i8", lanes)};
  };
  auto truth = [&](const IrNumber<uint8_t>& value) { return (value != Like(value, 0)).name; };
  IrNumber<uint8_t> x = byte(operands[0]);
  switch (FormOf(instr.fn)) {
    case ScalarForm::kUnary:
      return truth(compiler::UnaryBool(instr.fn, x));
    case ScalarForm::kBinary:
      return truth(compiler::BinaryBool(instr.fn, x, byte(operands[1])));
    case ScalarForm::kTest:
      return compiler::Test(instr.fn, x).name;
    case ScalarForm::kCompare:
      return compiler::Compare(instr.fn, x, byte(operands[1])).name;
    case ScalarForm::kNone:
    case ScalarForm::kSelect:
      break;
  }
  return {};
}

std::string ValueEmitter::LaneCalls(const Instr& instr, DType dtype, int lanes,
                                    const std::vector<std::string>& operands) {
  DType wide_dtype = IsFloat(dtype) ? DType::kF64 : DType::kI64;
  std::string_view element = RegisterElement(wide_dtype);
  std::string slot =
      ir_.Value("getelementptr ptr, ptr %functions, i64 {}", LaneFunctionIndex(instr.fn, dtype));
  std::string function = ir_.Value("load ptr, ptr {}, align 8", slot);
  std::vector<std::string> wide;
  for (const std::string& operand : operands) {
    wide.push_back(Cast(operand, dtype, wide_dtype, lanes));
  }
  std::string type = IrType(element, lanes);
  std::string result = "poison";
  for (int lane = 0; lane < lanes; ++lane) {
    std::string arguments;
    for (const std::string& value : wide) {
      std::string x =
          lanes == 1 ? value : ir_.Value("extractelement {} {}, i64 {}", type, value, lane);
      arguments += fmt::format("{}{} {}", arguments.empty() ? "" : ", ", element, x);
    }
    std::string y = ir_.Value("call {} {}({})", element, function, arguments);
    result = lanes == 1
                 ? y
                 : ir_.Value("insertelement {} {}, {} {}, i64 {}", type, result, element, y, lane);
  }
  return Cast(result, wide_dtype, instr.dtype, lanes);
}

}  // namespace hammock::cpu
