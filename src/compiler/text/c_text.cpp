#include "compiler/text/c_text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/throw.h"

namespace hammock::compiler {

constinit const Dialect kCudaC = {
    .i64 = "long long",
    .u64 = "unsigned long long",
    .i64_end = "ll",
    .u64_end = "ull",
    .function = "__device__ inline",
    .table = "__device__ const",
    .float_function = "f",
    .float_bits = "__float_as_int",
    .bits_float = "__int_as_float",
    .double_bits = "__double_as_longlong",
    .bits_double = "__longlong_as_double",
};

constinit const Dialect kOpenClC = {
    .i64 = "long",
    .u64 = "unsigned long",
    .i64_end = "L",
    .u64_end = "UL",
    .function = "static inline",
    .table = "__constant const",
    .float_function = "",
    .float_bits = "as_int",
    .bits_float = "as_float",
    .double_bits = "as_long",
    .bits_double = "as_double",
};

std::string CText::Value(std::string_view type, std::string_view expression) {
  std::string name = fmt::format("v{}", next_++);
  lines_ += fmt::format("  {} {} = {};\n", type, name, expression);
  return name;
}

void CText::Line(std::string_view line) { lines_ += fmt::format("  {}\n", line); }

std::string CText::Table(std::span<const double> table) {
  std::string body;
  size_t hash = 0;
  for (double value : table) {
    body += (body.empty() ? "" : ", ") + CLiteral(dialect_, value);
    hash = hash * 31 + std::bit_cast<uint64_t>(value);
  }
  std::string name = fmt::format("table_{:x}", hash);
  tables_[name] = fmt::format("{} double {}[] = {{{}}};\n", dialect_.table, name, body);
  return name;
}

std::string CLiteral(const Dialect& dialect, float value) {
  if (!std::isfinite(value)) {
    return fmt::format("{}(0x{:08x})", dialect.bits_float, std::bit_cast<uint32_t>(value));
  }
  return fmt::format("{:a}f", value);
}

std::string CLiteral(const Dialect& dialect, double value) {
  if (!std::isfinite(value)) {
    return fmt::format("{}(0x{:016x}{})", dialect.bits_double, std::bit_cast<uint64_t>(value),
                       dialect.i64_end);
  }
  return fmt::format("{:a}", value);
}

std::string CLiteral(const Dialect& dialect, int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) {
    return fmt::format("(-0x7fffffffffffffff{} - 1)", dialect.i64_end);
  }
  bool small = value >= std::numeric_limits<int32_t>::min() + 1 &&
               value <= std::numeric_limits<int32_t>::max();
  std::string digits = fmt::format("{}{}", value, small ? "" : dialect.i64_end);
  return value < 0 ? "(" + digits + ")" : digits;
}

std::string CLiteral(const Dialect& dialect, uint64_t value) {
  return fmt::format("{}{}", value,
                     value <= std::numeric_limits<uint32_t>::max() ? "u" : dialect.u64_end);
}

std::string_view ValueType(const Dialect& dialect, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kF16:
    case DType::kBF16:
      return "float";
    default:
      return MemoryType(dialect, dtype);
  }
}

std::string_view MemoryType(const Dialect& dialect, DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return CTypeOf<uint8_t>(dialect);
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return CTypeOf<uint16_t>(dialect);
    case DType::kU32:
      return CTypeOf<uint32_t>(dialect);
    case DType::kU64:
      return CTypeOf<uint64_t>(dialect);
    case DType::kI8:
      return CTypeOf<int8_t>(dialect);
    case DType::kI16:
      return CTypeOf<int16_t>(dialect);
    case DType::kI32:
      return CTypeOf<int32_t>(dialect);
    case DType::kI64:
      return CTypeOf<int64_t>(dialect);
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    default:
      Throw<NotSupported>(ErrorCode::kNotSupported, "no values of {}", NameOf(dtype));
  }
}

}  // namespace hammock::compiler
