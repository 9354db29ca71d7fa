#include "onnx/narrow.h"

#include <algorithm>
#include <cmath>

#include "base/throw.h"
#include "hammock/ops.h"
#include "onnx/call.h"

namespace hammock::onnx {
namespace {

/// A float of sign, exponent and mantissa, as codes.
struct FloatFormat {
  int32_t element;
  int mantissa, exponent, bias;
  int largest;        ///< code of the largest finite number
  int overflow;       ///< code of larger ones where they do not saturate, without the sign
  int not_a_number;   ///< code of NaN
  bool signed_nan;    ///< whether NaN has a sign, as zero then does
  bool has_infinity;  ///< the code `overflow` is infinity

  int bits() const { return 1 + exponent + mantissa; }
  int sign_bit() const { return 1 << (bits() - 1); }
  int least_exponent() const { return 1 - bias; }
};
constexpr FloatFormat kFloats[] = {
    {format::kFloat8E4M3FN, 3, 4, 7, 0x7e, 0x7f, 0x7f, true, false},
    {format::kFloat8E4M3FNUZ, 3, 4, 8, 0x7f, 0x80, 0x80, false, false},
    {format::kFloat8E5M2, 2, 5, 15, 0x7b, 0x7c, 0x7e, true, true},
    {format::kFloat8E5M2FNUZ, 2, 5, 16, 0x7f, 0x80, 0x80, false, false},
    {format::kFloat4E2M1, 1, 2, 1, 0x7, 0x7, 0x8, true, false},
};

struct IntegerFormat {
  int32_t element;
  int bits;
  bool is_signed;
};
constexpr IntegerFormat kIntegers[] = {
    {format::kUint4, 4, false},
    {format::kInt4, 4, true},
    {format::kUint2, 2, false},
    {format::kInt2, 2, true},
};

const FloatFormat* FindFloat(int32_t element) {
  auto found = std::ranges::find(kFloats, element, &FloatFormat::element);
  return found == std::end(kFloats) ? nullptr : found;
}
const IntegerFormat* FindInteger(int32_t element) {
  auto found = std::ranges::find(kIntegers, element, &IntegerFormat::element);
  return found == std::end(kIntegers) ? nullptr : found;
}

constexpr int kFraction = 23;  // bits of an f32
constexpr int kBias = 127;

Tensor Bits(const Tensor& x) { return view_dtype(x, DType::kI32); }
Tensor OfBits(const Tensor& bits) { return view_dtype(bits, DType::kF32); }
Tensor Of(const Tensor& like, double value) { return full_like(like, value); }

Tensor DecodedFloat(const Tensor& codes, const FloatFormat& format) {
  Tensor code = codes.to(DType::kI32);
  Tensor sign = bitwise_right_shift(code, format.bits() - 1);
  Tensor exponent =
      bitwise_and(bitwise_right_shift(code, format.mantissa), (1 << format.exponent) - 1);
  Tensor fraction = bitwise_and(code, (1 << format.mantissa) - 1);
  Tensor normal = OfBits(bitwise_or(bitwise_left_shift(exponent + (kBias - format.bias), kFraction),
                                    bitwise_left_shift(fraction, kFraction - format.mantissa)));
  Tensor small =
      fraction.to(DType::kF32) * std::ldexp(1.0, format.least_exponent() - format.mantissa);
  Tensor magnitude = where(eq(exponent, 0), small, normal);
  Tensor value = where(eq(sign, 1), neg(magnitude), magnitude);
  Tensor nan = Of(value, std::nan(""));
  if (!format.signed_nan) return where(eq(code, format.not_a_number), nan, value);
  if (format.element == format::kFloat4E2M1) return value;  // has neither NaN nor infinity
  Tensor unsigned_code = bitwise_and(code, format.sign_bit() - 1);
  if (format.has_infinity) {
    Tensor infinity = Of(value, INFINITY);
    value = where(eq(unsigned_code, format.overflow), where(eq(sign, 1), neg(infinity), infinity),
                  value);
    return where(gt(unsigned_code, format.overflow), nan, value);
  }
  return where(eq(unsigned_code, format.not_a_number), nan, value);
}

Tensor EncodedFloat(const Tensor& x, const FloatFormat& format, bool saturate) {
  Tensor bits = Bits(x.to(DType::kF32));
  Tensor negative = lt(bits, 0);
  Tensor magnitude_bits = bitwise_and(bits, 0x7fffffff);
  Tensor magnitude = OfBits(magnitude_bits);
  // The exponent of the number, or of the least normal one, gives the distance of codes there.
  Tensor exponent =
      clamp_min(bitwise_right_shift(magnitude_bits, kFraction) - kBias, format.least_exponent());
  Tensor scale = OfBits(bitwise_left_shift(neg(exponent) + (kBias + format.mantissa), kFraction));
  constexpr double kLarge = 3e38 / 65536;  // so that infinity times a scale is a number
  Tensor steps = round(clamp_max(magnitude, kLarge) * scale).to(DType::kI32);
  Tensor code = steps + bitwise_left_shift(exponent - format.least_exponent(), format.mantissa);
  Tensor beyond = gt(code, format.largest);
  code = where(beyond, Of(code, saturate ? format.largest : format.overflow), code);
  Tensor nan = gt(magnitude_bits, 0x7f800000);
  if (format.signed_nan) {
    code = where(nan, Of(code, format.not_a_number), code);
    Tensor signed_code = where(negative, bitwise_or(code, format.sign_bit()), code);
    return signed_code.to(DType::kU8);
  }
  // These have neither a negative zero nor a sign of NaN.
  Tensor has_sign = logical_and(negative, logical_and(gt(code, 0), lt(code, format.sign_bit())));
  code = where(has_sign, bitwise_or(code, format.sign_bit()), code);
  return where(nan, Of(code, format.not_a_number), code).to(DType::kU8);
}

constexpr int kNanE8M0 = 255, kLargestE8M0 = 254;

/// Powers of two from 2^-127.
Tensor DecodedPower(const Tensor& codes) {
  Tensor code = codes.to(DType::kI32);
  constexpr int kSmallest = 1 << (kFraction - 1);  // 2^-127 is below the normal f32
  Tensor value =
      OfBits(where(eq(code, 0), Of(code, kSmallest), bitwise_left_shift(code, kFraction)));
  return where(eq(code, kNanE8M0), Of(value, std::nan("")), value);
}

Tensor EncodedPower(const Tensor& x, const Encoding& encoding) {
  Tensor bits = Bits(x.to(DType::kF32));
  Tensor exponent = bitwise_and(bitwise_right_shift(bits, kFraction), 255);
  Tensor fraction = bitwise_and(bits, (1 << kFraction) - 1);
  int half = 1 << (kFraction - 1);
  Tensor up = encoding.round_mode == "down"      ? zeros_like(fraction, DType::kBool)
              : encoding.round_mode == "nearest" ? ge(fraction, half)
                                                 : gt(fraction, 0);
  // Below the normal numbers 2^-127 is the half of the least normal one.
  up = where(eq(exponent, 0), encoding.round_mode == "up" ? gt(fraction, half) : up, up);
  Tensor code = exponent + up.to(DType::kI32);
  code = where(gt(code, kLargestE8M0), Of(code, encoding.saturate ? kLargestE8M0 : kNanE8M0), code);
  Tensor wrong = logical_or(isnan(x), lt(x, 0));
  return where(wrong, Of(code, kNanE8M0), code).to(DType::kU8);
}

/// Wraps, as casts to the wider integers do.
Tensor EncodedInteger(const Tensor& x, const IntegerFormat& format) {
  int count = 1 << format.bits;
  Tensor low = bitwise_and(x.to(DType::kI32), count - 1);
  if (!format.is_signed) return low.to(DType::kU8);
  return where(ge(low, count / 2), low - count, low).to(DType::kI8);
}

}  // namespace

bool IsNarrow(int32_t element) {
  return element >= format::kFloat8E4M3FN && element <= format::kInt2;
}

bool IsNarrowInteger(int32_t element) { return FindInteger(element) != nullptr; }

DType StorageOf(int32_t element) {
  if (!IsNarrow(element)) return DTypeOfElement(element);
  const IntegerFormat* integer = FindInteger(element);
  return integer && integer->is_signed ? DType::kI8 : DType::kU8;
}

int BitsOf(int32_t element) {
  if (const IntegerFormat* integer = FindInteger(element)) return integer->bits;
  if (const FloatFormat* floats = FindFloat(element)) return floats->bits();
  return element == format::kFloat8E8M0 ? 8 : InfoOf(DTypeOfElement(element)).bits;
}

NarrowRange RangeOfNarrow(int32_t element) {
  const IntegerFormat& integer = *FindInteger(element);
  int count = 1 << integer.bits;
  return integer.is_signed ? NarrowRange{-count / 2, count / 2 - 1} : NarrowRange{0, count - 1};
}

bool Unpack(int32_t element, std::string& bytes, int64_t count) {
  int bits = BitsOf(element), each = 8 / bits;
  if (static_cast<int64_t>(bytes.size()) != (count + each - 1) / each) return false;
  if (bits == 8) return true;
  const IntegerFormat* integer = FindInteger(element);
  int mask = (1 << bits) - 1, sign = integer && integer->is_signed ? 1 << (bits - 1) : 0;
  std::string codes(static_cast<size_t>(count), '\0');
  for (int64_t i = 0; i < count; ++i) {
    int byte = static_cast<unsigned char>(bytes[static_cast<size_t>(i / each)]);
    int code = (byte >> (i % each * bits)) & mask;
    codes[static_cast<size_t>(i)] = static_cast<char>((code ^ sign) - sign);
  }
  bytes = std::move(codes);
  return true;
}

Tensor Decoded(const Tensor& codes, int32_t element) {
  if (const FloatFormat* floats = FindFloat(element)) return DecodedFloat(codes, *floats);
  return element == format::kFloat8E8M0 ? DecodedPower(codes) : codes;
}

Tensor Encoded(const Tensor& x, int32_t element, const Encoding& encoding) {
  if (const FloatFormat* floats = FindFloat(element)) {
    return EncodedFloat(x, *floats, encoding.saturate);
  }
  if (const IntegerFormat* integer = FindInteger(element)) return EncodedInteger(x, *integer);
  return EncodedPower(x, encoding);
}

bool MakesNarrow(const format::Node& node) {
  return std::ranges::any_of(node.attributes, [](const format::Attribute& attribute) {
    bool names = attribute.name == "to" || attribute.name == "output_dtype";
    // Strings are no tensors of the host either.
    bool text = attribute.name == "to" && attribute.i == format::kString;
    return text || (names && IsNarrow(static_cast<int32_t>(attribute.i))) ||
           std::ranges::any_of(attribute.tensors,
                               [](const format::Tensor& t) { return IsNarrow(t.element); });
  });
}

NarrowUse NarrowUseOf(std::string_view domain, std::string_view op) {
  constexpr std::string_view kMoving[] = {"Concat",  "Expand",  "Flatten",   "Gather",
                                          "Pad",     "Reshape", "Slice",     "Split",
                                          "Squeeze", "Tile",    "Transpose", "Unsqueeze"};
  constexpr std::string_view kConverting[] = {"Cast",
                                              "CastLike",
                                              "DequantizeLinear",
                                              "Identity",
                                              "Optional",
                                              "OptionalGetElement",
                                              "Loop",
                                              "OptionalHasElement",
                                              "QuantizeLinear",
                                              "SequenceConstruct",
                                              "Shape",
                                              "Size"};
  if (domain.empty() && std::ranges::count(kMoving, op)) return NarrowUse::kMoved;
  bool converts = domain.empty() || domain == "com.microsoft";
  return converts && std::ranges::count(kConverting, op) ? NarrowUse::kConverted
                                                         : NarrowUse::kRefused;
}

}  // namespace hammock::onnx
