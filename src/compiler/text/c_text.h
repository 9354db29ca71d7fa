#pragma once
/// Prints the lines of one function of a C-like language; `CNumber` in c_number.h prints scalar
/// bodies into it, as `IrNumber` does for LLVM.
///   CText text(kCudaC);
///   std::string y = text.Value("float", "x * x");  // "  float v0 = x * x;", returns "v0"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "hammock/compiler/scalar_text.h"

namespace hammock::compiler {

template <class T>
constexpr std::string_view CTypeOf(const Dialect& dialect) {
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
      return kSigned ? dialect.i64 : dialect.u64;
  }
}

class CText {
 public:
  explicit CText(const Dialect& dialect) : dialect_(dialect) {}

  const Dialect& dialect() const { return dialect_; }
  template <class T>
  std::string_view TypeOf() const {
    return CTypeOf<T>(dialect_);
  }
  /// The ending of functions of T.
  template <class T>
  std::string_view FunctionEnd() const {
    return sizeof(T) == 4 ? dialect_.float_function : std::string_view();
  }
  /// A line that defines a value; returns its name.
  std::string Value(std::string_view type, std::string_view expression);
  void Line(std::string_view line);
  /// The name of a table of constants, which `tables` has the text of.
  std::string Table(std::span<const double> table);

  const std::string& lines() const { return lines_; }
  const std::map<std::string, std::string>& tables() const { return tables_; }

 private:
  const Dialect& dialect_;
  std::string lines_;
  std::map<std::string, std::string> tables_;  // text by name
  int next_ = 0;
};

/// A number as it is written; exact.
std::string CLiteral(const Dialect& dialect, float value);
std::string CLiteral(const Dialect& dialect, double value);
std::string CLiteral(const Dialect& dialect, int64_t value);
std::string CLiteral(const Dialect& dialect, uint64_t value);

}  // namespace hammock::compiler
