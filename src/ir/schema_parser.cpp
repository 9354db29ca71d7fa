// FunctionSchema::Parse: a recursive descent over one line of text.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/throw.h"
#include "hammock/ir/schema.h"
#include "ir/schema_access.h"
#include "ir/text.h"

namespace hammock {
namespace {

using Base = SchemaType::Base;

struct BaseName {
  std::string_view name;
  Base base;
};
constexpr BaseName kBaseNames[] = {
    {"Tensor", Base::kTensor},    {"Scalar", Base::kScalar}, {"int", Base::kInt},
    {"float", Base::kFloat},      {"bool", Base::kBool},     {"str", Base::kString},
    {"ScalarType", Base::kDType}, {"Device", Base::kDevice}, {"Generator", Base::kGenerator},
    {"Graph", Base::kGraph},      {"Any", Base::kAny},       {"None", Base::kNone},
};

class SchemaParser {
 public:
  explicit SchemaParser(std::string_view text) : text_(text) {}

  // name.overload
  void ParseName(std::string& name, std::string& overload) {
    do {
      name += name.empty() ? Identifier("the op's name") : "::" + Identifier("the op's name");
    } while (AcceptText("::"));
    if (Accept('.')) overload = Word("an overload name");
  }

  std::vector<SchemaArgument> ParseArguments() {
    std::vector<SchemaArgument> arguments;
    Expect('(');
    bool keyword_only = false;
    while (!Accept(')')) {
      if (!arguments.empty() || keyword_only) Expect(',');
      if (Accept('*')) {
        if (keyword_only) Fail("a second '*'");
        keyword_only = true;
        continue;
      }
      SchemaArgument argument = ParseArgument(keyword_only);
      for (const SchemaArgument& earlier : arguments) {
        if (earlier.name == argument.name) Fail("a second argument '" + argument.name + "'");
      }
      arguments.push_back(std::move(argument));
    }
    return arguments;
  }

  std::vector<SchemaType> ParseReturns() {
    if (!AcceptText("->")) Fail("expected '->'");
    std::vector<SchemaType> returns;
    if (!Accept('(')) {
      returns.push_back(ParseReturn());
    } else if (!Accept(')')) {
      do {
        returns.push_back(ParseReturn());
      } while (Accept(','));
      Expect(')');
    }
    Skip();
    if (at_ != text_.size()) Fail("unexpected text after the result types");
    return returns;
  }

 private:
  SchemaArgument ParseArgument(bool keyword_only) {
    SchemaArgument argument;
    argument.keyword_only = keyword_only;
    argument.type = ParseType(argument.written);
    argument.name = Identifier("an argument name");
    if (Accept('=')) argument.default_value = ParseDefault(argument.type);
    return argument;
  }

  SchemaType ParseReturn() {
    bool written = false;
    SchemaType type = ParseType(written);
    Skip();
    if (at_ < text_.size() && IsWordChar(text_[at_])) Word("a result name");
    return type;
  }

  SchemaType ParseType(bool& written) {
    Deeper deeper(*this);
    SchemaType type = ParseBase();
    ParseAlias(written);
    bool optional = Accept('?');
    int lists = 0;
    while (Accept('[')) {
      if (type.list) {  // "int[][]": a list of what was read so far
        if (++lists > kMaxDepth) FailTooDeep();
        type.optional = optional;
        type = {.base = Base::kNested, .inner = {type}};
        optional = false;
      }
      type.list = true;
      type.optional_items = std::exchange(optional, false);
      Skip();
      if (at_ < text_.size() && text_[at_] != ']') type.fixed_length = ParseLength();
      Expect(']');
      ParseAlias(written);
      optional = Accept('?');
    }
    type.optional = optional;
    return type;
  }

  SchemaType ParseBase() {
    Skip();
    size_t start = at_;
    std::string word = Word("a type");
    if (word == "SymInt") return {.base = Base::kInt, .symbolic = true};
    if (word == "dtype") return {.base = Base::kDType};
    if (word == "Dict") return ParseDict();
    if (word == "Tuple") return {.base = Base::kTuple, .inner = ParseInner()};
    for (const BaseName& entry : kBaseNames) {
      if (word == entry.name) return {.base = entry.base};
    }
    // Classes have a namespace.
    std::string class_name = word;
    while (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      class_name += "." + Word("a class name");
    }
    if (class_name != word) return {.base = Base::kObject, .class_name = std::move(class_name)};
    at_ = start;
    Fail("unknown type '" + word + "'");
  }

  SchemaType ParseDict() {
    Expect('(');
    if (Word("str") != "str") Fail("expected Dict(str, ...)");
    Expect(',');
    bool written = false;
    SchemaType type{.base = Base::kDict, .inner = {ParseType(written)}};
    Expect(')');
    return type;
  }

  std::vector<SchemaType> ParseInner() {
    std::vector<SchemaType> types;
    Expect('(');
    do {
      bool written = false;
      types.push_back(ParseType(written));
    } while (Accept(','));
    Expect(')');
    return types;
  }

  // (a), (a!), (a|b), (a -> *): only whether it is written matters here.
  void ParseAlias(bool& written) {
    if (!Accept('(')) return;
    size_t close = text_.find(')', at_);
    if (close == std::string_view::npos) Fail("expected ')'");
    written = written || text_.substr(at_, close - at_).find('!') != std::string_view::npos;
    at_ = close + 1;
  }

  int ParseLength() {
    std::string digits = Word("a length");
    std::optional<Scalar> length = ParseNumber(digits, DType::kI32);
    if (!length || length->ToInt() < 1 || length->ToInt() > 64) Fail("a length from 1 to 64");
    return static_cast<int>(length->ToInt());
  }

  Any ParseDefault(const SchemaType& type) {
    Skip();
    size_t start = at_;
    Any value = ParseLiteral(type);
    if (!type.Accepts(value)) {
      at_ = start;
      Fail("the default " + value.to_string() + " is no " + type.to_string());
    }
    return ConvertArgument(type, value);
  }

  Any ParseLiteral(const SchemaType& type) {
    Deeper deeper(*this);
    if (Accept('[')) {
      AnyList items;
      if (Accept(']')) return Any(std::move(items));
      do {
        items.push_back(ParseLiteral(type));
      } while (Accept(','));
      Expect(']');
      return Any(std::move(items));
    }
    Skip();
    if (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"')) return ParseQuoted();
    size_t start = at_;
    while (at_ < text_.size() && (IsWordChar(text_[at_]) || IsNumberChar(at_, start))) ++at_;
    std::string_view word = text_.substr(start, at_ - start);
    if (word == "None" || word == "none") return Any();
    if (word == "True" || word == "true") return Any(true);
    if (word == "False" || word == "false") return Any(false);
    if (type.base == Base::kDType) {
      if (std::optional<DType> dtype = DTypeFromName(word)) return Any(*dtype);
    }
    if (std::optional<Scalar> number = ParseNumber(word, DType::kI64)) return Any(*number);
    if (std::optional<Scalar> number = ParseNumber(word, DType::kF64)) return Any(*number);
    at_ = start;
    Fail("expected a default value");
  }

  Any ParseQuoted() {
    char quote = text_[at_++];
    size_t close = text_.find(quote, at_);
    if (close == std::string_view::npos) Fail("a string that does not end");
    std::string value(text_.substr(at_, close - at_));
    at_ = close + 1;
    return Any(std::move(value));
  }

  static bool IsWordChar(char c) { return IsIdentifier(std::string_view(&c, 1)) || IsDigit(c); }
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  bool IsNumberChar(size_t at, size_t start) const {
    char c = text_[at];
    if (c == '.') return true;
    bool exponent = at > start && (text_[at - 1] == 'e' || text_[at - 1] == 'E');
    return (c == '-' && (at == start || exponent)) || (c == '+' && exponent);
  }

  std::string Word(const char* what) {
    Skip();
    size_t start = at_;
    while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
    if (at_ == start) Fail(std::string("expected ") + what);
    return std::string(text_.substr(start, at_ - start));
  }

  std::string Identifier(const char* what) {
    Skip();
    if (at_ < text_.size() && IsDigit(text_[at_])) Fail(std::string("expected ") + what);
    return Word(what);
  }

  void Skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool Accept(char c) {
    Skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool AcceptText(std::string_view expected) {
    Skip();
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Fail(std::string("expected '") + c + "'");
  }

  [[noreturn]] void FailTooDeep() const {
    Fail("types or values that are nested deeper than " + std::to_string(kMaxDepth));
  }
  [[noreturn]] void Fail(const std::string& what) const {
    Throw(ErrorCode::kParse, "schema: column {}: {} in \"{}\"", at_ + 1, what, text_);
  }

  /// Schemas are also read from files: the stack must not depend on them.
  static constexpr int kMaxDepth = 32;
  struct Deeper {
    explicit Deeper(SchemaParser& parser) : depth(parser.depth_) {
      if (++depth > kMaxDepth) parser.FailTooDeep();
    }
    ~Deeper() { --depth; }
    int& depth;
  };

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string_view BaseNameOf(SchemaType::Base base) {
  for (const BaseName& entry : kBaseNames) {
    if (entry.base == base) return entry.name;
  }
  return "";
}

FunctionSchema FunctionSchema::Parse(std::string_view text) {
  SchemaParser parser(text);
  FunctionSchema schema;
  parser.ParseName(schema.name_, schema.overload_);
  schema.arguments_ = parser.ParseArguments();
  schema.returns_ = parser.ParseReturns();
  schema.variadic_returns_ = schema.returns_.size() == 1 && schema.returns_[0].list;
  return schema;
}

}  // namespace hammock
