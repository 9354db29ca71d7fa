#pragma once
/// The words, numbers and strings of graph text, with errors that name line and column.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/throw.h"
#include "hammock/scalar.h"

namespace hammock {

/// Every method first skips white space and comments.
class GraphLexer {
 public:
  explicit GraphLexer(std::string_view text) : text_(text) {}

  bool AtEnd();
  char Peek();  ///< 0 at the end
  bool PeekDigit();
  std::string_view PeekWord();  ///< empty if there is none
  size_t position();

  bool Accept(char c);
  void Expect(char c);
  bool AcceptWord(std::string_view word);
  /// "." right after what was read last.
  bool AcceptDot();
  std::string_view Word(const char* what);
  std::string_view OpName();  ///< words joined by "." and "::"
  uint32_t NodeNumber();      ///< "%12"
  int64_t Integer();
  std::string Quoted();
  std::string RestOfLine();
  /// A number with its dtype, unless an expression with dim parameters starts here.
  std::optional<Scalar> AcceptNumber();

  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
    Raise(position(), fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void FailAt(size_t at, fmt::format_string<Args...> format, Args&&... args) {
    Raise(at, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void Skip();
  /// The end of the number that starts at `at_`, or `at_` if none does.
  size_t NumberEnd() const;
  /// A real number as it is written.
  struct Digits {
    std::string_view text;
    std::string_view nan_bits;
  };
  Digits WithNanBits(std::string_view digits);
  DType NumberDType(DType usual, size_t start);
  Scalar NumberOf(const Digits& number, DType dtype, size_t start);
  Scalar TypedNumber(std::string_view digits);
  Scalar ComplexNumber();
  Scalar NanOf(std::string_view digits, DType dtype, size_t at);
  [[noreturn]] void Raise(size_t at, const std::string& what) const;

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace hammock
