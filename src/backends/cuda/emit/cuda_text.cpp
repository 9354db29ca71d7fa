#include "backends/cuda/emit/cuda_text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/throw.h"

namespace hammock::cuda {

std::string CudaText::Value(std::string_view type, std::string_view expression) {
  std::string name = fmt::format("v{}", next_++);
  lines_ += fmt::format("  {} {} = {};\n", type, name, expression);
  return name;
}

void CudaText::Line(std::string_view line) { lines_ += fmt::format("  {}\n", line); }

std::string CudaText::Table(std::span<const double> table) {
  std::string body;
  size_t hash = 0;
  for (double value : table) {
    body += (body.empty() ? "" : ", ") + CudaLiteral(value);
    hash = hash * 31 + std::bit_cast<uint64_t>(value);
  }
  std::string name = fmt::format("table_{:x}", hash);
  tables_[name] = fmt::format("__device__ const double {}[] = {{{}}};\n", name, body);
  return name;
}

std::string CudaLiteral(float value) {
  if (!std::isfinite(value)) {
    return fmt::format("__int_as_float(0x{:08x})", std::bit_cast<uint32_t>(value));
  }
  return fmt::format("{:a}f", value);
}

std::string CudaLiteral(double value) {
  if (!std::isfinite(value)) {
    return fmt::format("__longlong_as_double(0x{:016x}ll)", std::bit_cast<uint64_t>(value));
  }
  return fmt::format("{:a}", value);
}

std::string CudaLiteral(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return "(-0x7fffffffffffffffll - 1)";
  bool small = value >= std::numeric_limits<int32_t>::min() + 1 &&
               value <= std::numeric_limits<int32_t>::max();
  std::string digits = fmt::format("{}{}", value, small ? "" : "ll");
  return value < 0 ? "(" + digits + ")" : digits;
}

std::string CudaLiteral(uint64_t value) {
  return fmt::format("{}{}", value, value <= std::numeric_limits<uint32_t>::max() ? "u" : "ull");
}

std::string_view ValueType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kF16:
    case DType::kBF16:
      return "float";
    default:
      return MemoryType(dtype);
  }
}

std::string_view MemoryType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return CudaTypeOf<uint8_t>();
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return CudaTypeOf<uint16_t>();
    case DType::kU32:
      return CudaTypeOf<uint32_t>();
    case DType::kU64:
      return CudaTypeOf<uint64_t>();
    case DType::kI8:
      return CudaTypeOf<int8_t>();
    case DType::kI16:
      return CudaTypeOf<int16_t>();
    case DType::kI32:
      return CudaTypeOf<int32_t>();
    case DType::kI64:
      return CudaTypeOf<int64_t>();
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    default:
      Throw<NotSupported>(ErrorCode::kNotSupported, "cuda: no values of {}", NameOf(dtype));
  }
}

}  // namespace hammock::cuda
