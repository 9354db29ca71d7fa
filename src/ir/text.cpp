#include "ir/text.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>

#include "ir/convert.h"

namespace hammock {
namespace {

constexpr uint64_t kUsualNan = 0x7ff8000000000000;

template <class T>
void AppendReal(std::string& out, T value) {
  if (std::isnan(value)) {
    uint64_t bits = std::bit_cast<uint64_t>(static_cast<double>(value));
    if (bits == kUsualNan) {
      out += "nan";
    } else {
      fmt::format_to(std::back_inserter(out), "nan({:#x})", bits);
    }
    return;
  }
  size_t start = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);
  if (out.find_first_of(".ein", start) == std::string::npos) out += ".0";
}

template <class T>
std::optional<T> FromChars(std::string_view digits) {
  T value{};
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

template <class T>
std::optional<Scalar> ParseInteger(std::string_view digits, DType dtype) {
  std::optional<T> value = FromChars<T>(digits);
  if (!value) return std::nullopt;
  Scalar wide(*value);
  Scalar scalar = wide.To(dtype);
  if (scalar.bits() != wide.bits()) return std::nullopt;
  return scalar;
}

}  // namespace

void AppendDouble(std::string& out, double value) { AppendReal(out, value); }

std::string NumberText(const Scalar& value) {
  std::string out;
  DType dtype = value.dtype();
  if (value.IsComplex()) {
    auto part = [&](uint64_t bits) { return NumberText(Scalar::FromBits(RealOf(dtype), bits)); };
    const std::string imag = part(value.imag_bits());
    out = part(value.bits()) + (imag.starts_with('-') ? "" : "+") + imag + 'j';
    return out;
  }
  if (value.IsBool()) {
    out += value.ToBool() ? "true" : "false";
  } else if (dtype == DType::kF64 || (value.IsFloating() && std::isnan(value.ToDouble()))) {
    AppendReal(out, value.ToDouble());
  } else if (value.IsFloating()) {
    AppendReal(out, static_cast<float>(value.ToDouble()));  // exact for every narrower float
  } else if (dtype == DType::kU64) {
    fmt::format_to(std::back_inserter(out), "{}", value.bits());
  } else {
    fmt::format_to(std::back_inserter(out), "{}", value.ToInt());
  }
  return out;
}

void AppendScalar(std::string& out, const Scalar& value) {
  DType dtype = value.dtype();
  if (value.IsComplex()) {  // the parts apart: sums are expressions of sizes
    auto part = [&](uint64_t bits) { return NumberText(Scalar::FromBits(RealOf(dtype), bits)); };
    out += '(' + part(value.bits()) + ',' + part(value.imag_bits()) + ')';
    if (dtype == DType::kC64) out += ":c64";
    return;
  }
  out += NumberText(value);
  if (dtype == DType::kBool || dtype == DType::kI64 || dtype == DType::kF64) return;
  out += ':';
  out += NameOf(dtype);
}

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c >= 0x20 && c < 0x7f) {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  out += '"';
}

std::optional<Scalar> ParseNumber(std::string_view digits, DType dtype) {
  if (dtype == DType::kU64) return ParseInteger<uint64_t>(digits, dtype);
  if (dtype == DType::kBool || IsComplex(dtype)) return std::nullopt;
  if (!IsFloat(dtype)) return ParseInteger<int64_t>(digits, dtype);
  if (dtype == DType::kF64) {
    std::optional<double> value = FromChars<double>(digits);
    return value ? std::optional(Scalar(*value)) : std::nullopt;
  }
  // Read as float at once: going through double would round twice.
  std::optional<float> value = FromChars<float>(digits);
  return value ? std::optional(Scalar(*value).To(dtype)) : std::nullopt;
}

bool IsIdentifier(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name) {
    bool fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!fine) return false;
  }
  return true;
}

}  // namespace hammock
