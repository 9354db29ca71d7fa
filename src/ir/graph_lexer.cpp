#include "ir/graph_lexer.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "ir/text.h"

namespace hammock {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsWordChar(char c) { return IsLetter(c) || IsDigit(c); }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void GraphLexer::Skip() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else {
      return;
    }
  }
}

bool GraphLexer::AtEnd() { return Peek() == 0 && at_ >= text_.size(); }

char GraphLexer::Peek() {
  Skip();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool GraphLexer::PeekDigit() { return IsDigit(Peek()); }

std::string_view GraphLexer::PeekWord() {
  if (!IsLetter(Peek())) return {};
  size_t end = at_;
  while (end < text_.size() && IsWordChar(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

size_t GraphLexer::position() {
  Skip();
  return at_;
}

bool GraphLexer::Accept(char c) {
  if (Peek() != c || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

void GraphLexer::Expect(char c) {
  if (Accept(c)) return;
  if (AtEnd()) Fail("expected '{}', but the text ends", c);
  Fail("expected '{}', got '{}'", c, text_[at_]);
}

bool GraphLexer::AcceptWord(std::string_view word) {
  if (PeekWord() != word) return false;
  at_ += word.size();
  return true;
}

bool GraphLexer::AcceptDot() {
  if (at_ >= text_.size() || text_[at_] != '.') return false;
  ++at_;
  return true;
}

std::string_view GraphLexer::Word(const char* what) {
  std::string_view word = PeekWord();
  if (word.empty()) Fail("expected {}", what);
  at_ += word.size();
  return word;
}

std::string_view GraphLexer::OpName() {
  size_t start = position();
  Word("an op");
  while (at_ < text_.size()) {
    if (text_[at_] == '.') {
      ++at_;
    } else if (text_.substr(at_).starts_with("::")) {
      at_ += 2;
    } else {
      break;
    }
    while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
  }
  return text_.substr(start, at_ - start);
}

uint32_t GraphLexer::NodeNumber() {
  Expect('%');
  uint32_t number = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
  if (error != std::errc()) Fail("expected a node number");
  at_ = end - text_.data();
  return number;
}

int64_t GraphLexer::Integer() {
  Skip();
  int64_t value = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) Fail("the number does not fit 64 bits");
  if (error != std::errc()) Fail("expected an integer");
  at_ = end - text_.data();
  return value;
}

std::string GraphLexer::Quoted() {
  size_t start = position();
  Expect('"');
  std::string value;
  while (true) {
    if (at_ >= text_.size() || text_[at_] == '\n') FailAt(start, "a string that does not end");
    char c = text_[at_++];
    if (c == '"') return value;
    if (c != '\\') {
      value += c;
      continue;
    }
    char escape = at_ < text_.size() ? text_[at_++] : '\0';
    if (escape == 'n') {
      value += '\n';
    } else if (escape == '"' || escape == '\\') {
      value += escape;
    } else if (escape == 'x' && at_ + 2 <= text_.size() && HexDigit(text_[at_]) >= 0 &&
               HexDigit(text_[at_ + 1]) >= 0) {
      value += static_cast<char>(HexDigit(text_[at_]) * 16 + HexDigit(text_[at_ + 1]));
      at_ += 2;
    } else {
      FailAt(start, "a string with an unknown escape");
    }
  }
}

std::string GraphLexer::RestOfLine() {
  size_t end = std::min(text_.find('\n', at_), text_.size());
  std::string_view rest = text_.substr(at_, end - at_);
  at_ = end;
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  while (rest.ends_with(' ') || rest.ends_with('\r')) rest.remove_suffix(1);
  return std::string(rest);
}

size_t GraphLexer::NumberEnd() const {
  size_t at = at_ + (at_ < text_.size() && text_[at_] == '-' ? 1 : 0);
  std::string_view rest = text_.substr(at);
  for (std::string_view word : {"inf", "nan"}) {
    if (rest.starts_with(word) && (rest.size() == 3 || !IsWordChar(rest[3]))) return at + 3;
  }
  if (rest.empty() || !IsDigit(rest[0])) return at_;
  auto digits = [&] {
    while (at < text_.size() && IsDigit(text_[at])) ++at;
  };
  digits();
  if (at < text_.size() && text_[at] == '.') {
    ++at;
    digits();
  }
  if (at < text_.size() && (text_[at] == 'e' || text_[at] == 'E')) {
    ++at;
    if (at < text_.size() && (text_[at] == '-' || text_[at] == '+')) ++at;
    digits();
  }
  return at;
}

std::optional<Scalar> GraphLexer::AcceptNumber() {
  Skip();
  if (at_ < text_.size() && text_[at_] == '(') return ComplexNumber();
  size_t end = NumberEnd();
  if (end == at_) return std::nullopt;
  size_t next = std::min(text_.find_first_not_of(' ', end), text_.size());
  char after = next < text_.size() ? text_[next] : '\0';
  if (after == '*' || after == '+' || after == '-') return std::nullopt;  // an expression
  std::string_view digits = text_.substr(at_, end - at_);
  at_ = end;
  return TypedNumber(digits);
}

// "(bits)" of a NaN, after its digits.
GraphLexer::Digits GraphLexer::WithNanBits(std::string_view digits) {
  Digits result{digits, {}};
  if (digits.ends_with("nan") && at_ < text_.size() && text_[at_] == '(') {
    size_t close = std::min(text_.find(')', at_), text_.size());
    result.nan_bits = text_.substr(at_ + 1, close - at_ - 1);
    at_ = std::min(close + 1, text_.size());
  }
  return result;
}

// ":dtype" behind a number.
DType GraphLexer::NumberDType(DType usual, size_t start) {
  if (at_ >= text_.size() || text_[at_] != ':') return usual;
  ++at_;
  std::string_view word = Word("a dtype");
  std::optional<DType> named = DTypeFromName(word);
  if (!named) FailAt(start, "unknown dtype '{}'", word);
  return *named;
}

Scalar GraphLexer::NumberOf(const Digits& number, DType dtype, size_t start) {
  if (number.text.ends_with("nan")) return NanOf(number.nan_bits, dtype, start);
  std::optional<Scalar> value = ParseNumber(number.text, dtype);
  if (!value) FailAt(start, "'{}' is no {} number", number.text, NameOf(dtype));
  return *value;
}

Scalar GraphLexer::TypedNumber(std::string_view digits) {
  size_t start = static_cast<size_t>(digits.data() - text_.data());
  Digits number = WithNanBits(digits);
  bool real = digits.find_first_of(".eEin") != std::string_view::npos;
  DType dtype = NumberDType(real ? DType::kF64 : DType::kI64, start);
  return NumberOf(number, dtype, start);
}

// "(real,imag)" and ":dtype".
Scalar GraphLexer::ComplexNumber() {
  size_t start = at_;
  Expect('(');
  auto part = [&] {
    Skip();
    size_t end = NumberEnd();
    if (end == at_) FailAt(start, "a complex number that lacks a part");
    std::string_view digits = text_.substr(at_, end - at_);
    at_ = end;
    return WithNanBits(digits);
  };
  const Digits real = part();
  Expect(',');
  const Digits imag = part();
  Expect(')');
  DType dtype = NumberDType(DType::kC128, start);
  if (!IsComplex(dtype)) FailAt(start, "two parts of a {} number", NameOf(dtype));
  return Scalar::FromBits(dtype, NumberOf(real, RealOf(dtype), start).bits(),
                          NumberOf(imag, RealOf(dtype), start).bits());
}

Scalar GraphLexer::NanOf(std::string_view digits, DType dtype, size_t at) {
  uint64_t bits = std::bit_cast<uint64_t>(std::nan(""));
  if (!digits.empty()) {
    const char* begin = digits.data() + (digits.starts_with("0x") ? 2 : 0);
    auto [end, error] = std::from_chars(begin, digits.data() + digits.size(), bits, 16);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      FailAt(at, "'{}' are no bits of a NaN", digits);
    }
  }
  if (!IsFloat(dtype) || !std::isnan(std::bit_cast<double>(bits))) {
    FailAt(at, "'nan' is no {} number", NameOf(dtype));
  }
  return Scalar::FromBits(dtype, bits);
}

void GraphLexer::Raise(size_t at, const std::string& what) const {
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < at && i < text_.size(); ++i) {
    column = text_[i] == '\n' ? 1 : column + 1;
    line += text_[i] == '\n' ? 1 : 0;
  }
  Throw(ErrorCode::kParse, "graph text: line {}, column {}: {}", line, column, what);
}

}  // namespace hammock
