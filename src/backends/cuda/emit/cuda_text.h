#pragma once
/// Prints the lines of one device function; `CudaNumber` in cuda_number.h prints scalar bodies into
/// it, as `IrNumber` does for LLVM.
///   CudaText text;
///   std::string y = text.Value("float", "x * x");  // "  float v0 = x * x;", returns "v0"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "hammock/ir/dtype.h"

namespace hammock::cuda {

class CudaText {
 public:
  /// A line that defines a value; returns its name.
  std::string Value(std::string_view type, std::string_view expression);
  void Line(std::string_view line);
  /// The name of a table of constants, which `tables` has the text of.
  std::string Table(std::span<const double> table);

  const std::string& lines() const { return lines_; }
  const std::map<std::string, std::string>& tables() const { return tables_; }

 private:
  std::string lines_;
  std::map<std::string, std::string> tables_;  // text by name
  int next_ = 0;
};

/// A number as it is written in CUDA C++; exact.
std::string CudaLiteral(float value);
std::string CudaLiteral(double value);
std::string CudaLiteral(int64_t value);
std::string CudaLiteral(uint64_t value);

/// The type of values of `dtype`: "float" for the 16-bit floats, "bool".
std::string_view ValueType(DType dtype);
/// The type of elements in memory: "unsigned short" for the 16-bit floats, "unsigned char" for
/// bool.
std::string_view MemoryType(DType dtype);

template <class T>
constexpr std::string_view CudaTypeOf() {
  if constexpr (std::is_same_v<T, float>) return "float";
  if constexpr (std::is_same_v<T, double>) return "double";
  constexpr bool kSigned = std::is_signed_v<T>;
  switch (sizeof(T)) {
    case 1:
      return kSigned ? "signed char" : "unsigned char";
    case 2:
      return kSigned ? "short" : "unsigned short";
    case 4:
      return kSigned ? "int" : "unsigned int";
    default:
      return kSigned ? "long long" : "unsigned long long";
  }
}

}  // namespace hammock::cuda
