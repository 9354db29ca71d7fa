#pragma once
/// The lexical forms that graph text, attributes and messages share. Each prints so that it reads
/// back exactly.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hammock/scalar.h"

namespace hammock {

/// Shortest digits that read back; always with a point, an exponent, `inf` or `nan`, so that it
/// never looks like an integer. A NaN other than the usual one shows its bits: `nan(0x7ff4...)`.
void AppendDouble(std::string& out, double value);
/// "2.5", "3", "true"; other types than f64, i64 and bool are named: "2.5:f32".
void AppendScalar(std::string& out, const Scalar& value);
/// The same without the type: "2.5" for 2.5:f32.
std::string NumberText(const Scalar& value);
/// In double quotes; quotes, backslashes and bytes outside printable ASCII are escaped.
void AppendQuoted(std::string& out, std::string_view text);

/// The number that `digits` spell (no sign rules beyond a leading '-', no `nan(...)`), as a scalar
/// of `dtype`; nothing if it is no number of that kind or does not fit.
std::optional<Scalar> ParseNumber(std::string_view digits, DType dtype);

/// Letters, digits and underscores, not starting with a digit.
bool IsIdentifier(std::string_view name);

}  // namespace hammock
