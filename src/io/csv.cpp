#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/throw.h"
#include "hammock/io/readers.h"
#include "io/file_bytes.h"

namespace hammock::io {
namespace {

/// Goes through the fields of a text. Lines end with \n or \r\n; empty lines are skipped.
class Fields {
 public:
  Fields(std::string_view text, char delimiter, const std::string& path)
      : text_(text), delimiter_(delimiter), path_(path) {}

  int line() const { return line_; }

  /// The fields of the next line; none at the end.
  std::optional<std::vector<std::string>> NextLine() {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) Newline();
    if (at_ == text_.size()) return std::nullopt;
    ++line_;
    std::vector<std::string> fields;
    do {
      fields.push_back(NextField());
    } while (Accept(delimiter_));
    if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') {
      Throw(ErrorCode::kParse, "{}: line {}: text after a closing quote", path_, line_);
    }
    if (at_ < text_.size()) {
      Accept('\r');
      Accept('\n');
    }
    return fields;
  }

 private:
  void Newline() {
    if (text_[at_++] == '\n') ++line_;
  }
  bool Accept(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string NextField() {
    std::string field;
    if (!Accept('"')) {
      size_t start = at_;
      while (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n' &&
             text_[at_] != '\r') {
        ++at_;
      }
      return std::string(text_.substr(start, at_ - start));
    }
    while (true) {
      if (at_ == text_.size())
        Throw(ErrorCode::kParse, "{}: line {}: a quote stays open", path_, line_);
      if (Accept('"')) {
        if (!Accept('"')) return field;
        field += '"';
      } else {
        field += text_[at_++];
      }
    }
  }

  std::string_view text_;
  char delimiter_;
  const std::string& path_;
  size_t at_ = 0;
  int line_ = 0;
};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// The whole text as a T; none if it is not one.
template <class T>
std::optional<T> Parsed(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Scalar> Number(std::string_view text, DType dtype) {
  text = Trimmed(text);
  if (IsFloat(dtype)) {
    if (text.empty()) return Scalar(std::numeric_limits<double>::quiet_NaN());
    if (auto value = Parsed<double>(text)) return Scalar(*value);
    return std::nullopt;
  }
  auto value = Parsed<int64_t>(text);
  if (!value || Scalar(*value).To(dtype).ToInt() != *value) return std::nullopt;
  return Scalar(*value);
}

}  // namespace

Csv ReadCsv(const std::string& path, const CsvOptions& options, Location at) {
  LocationScope scope(at);
  return ParseCsv(ReadFile(path), path, options);
}

Csv ParseCsv(std::span<const std::byte> packed, const std::string& name, const CsvOptions& options,
             Location at) {
  LocationScope scope(at);
  std::vector<std::byte> storage;
  std::span<const std::byte> bytes = Unzipped(packed, name, storage);
  Fields fields({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options.delimiter,
                name);
  Csv csv;
  if (options.header) csv.names = fields.NextLine().value_or(std::vector<std::string>{});
  std::vector<Scalar> values;
  std::optional<size_t> columns;
  if (options.header) columns = csv.names.size();
  int64_t rows = 0;
  while (auto line = fields.NextLine()) {
    if (columns.value_or(line->size()) != line->size()) {
      Throw(ErrorCode::kParse, "{}: line {} has {} fields, expected {}", name, fields.line(),
            line->size(), *columns);
    }
    columns = line->size();
    ++rows;
    for (size_t i = 0; i < line->size(); ++i) {
      auto value = Number((*line)[i], options.dtype);
      if (!value) {
        Throw(ErrorCode::kParse, "{}: line {}: field {} '{}' is no {}", name, fields.line(), i + 1,
              (*line)[i], NameOf(options.dtype));
      }
      values.push_back(*value);
    }
  }
  csv.values = HostTensor(Shape(options.dtype, {rows, static_cast<int64_t>(columns.value_or(0))}));
  for (size_t i = 0; i < values.size(); ++i) csv.values.set(static_cast<int64_t>(i), values[i]);
  return csv;
}

}  // namespace hammock::io
