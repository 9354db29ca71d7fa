#pragma once
/// Element types of ONNX that no op computes with: 8-bit and 4-bit floats, and integers of 4 and 2
/// bits. A tensor of them is a tensor of codes, one a byte (u8; i8 for signed integers, whose codes
/// are their values), and its `Value` says what the codes mean. Casts, QuantizeLinear and
/// DequantizeLinear convert codes to numbers and back; operators that only move elements move
/// codes.

#include <cstdint>
#include <string>
#include <string_view>

#include "hammock/tensor.h"
#include "onnx/plugin/format.h"

namespace hammock::onnx {

bool IsNarrow(int32_t element);
/// An integer of less than a byte.
bool IsNarrowInteger(int32_t element);
/// The dtype of the codes; of other elements the dtype itself.
DType StorageOf(int32_t element);
/// Bits of an element in a file.
int BitsOf(int32_t element);
/// The numbers of a narrow integer type.
struct NarrowRange {
  int lowest, highest;
};
NarrowRange RangeOfNarrow(int32_t element);

/// One code a byte from the packed bytes of a file; false if there are not `count` of them.
bool Unpack(int32_t element, std::string& bytes, int64_t count);

/// The numbers that codes stand for: f32, or i8 and u8 of integers.
Tensor Decoded(const Tensor& codes, int32_t element);

struct Encoding {
  bool saturate = true;                ///< too large numbers become the largest one
  std::string_view round_mode = "up";  ///< of float8e8m0
};
/// The codes of the nearest numbers, ties to even. Integers keep their low bits.
Tensor Encoded(const Tensor& x, int32_t element, const Encoding& encoding = {});

/// Whether a node computes narrow elements, or strings, that its inputs do not show: by an
/// attribute.
bool MakesNarrow(const format::Node& node);
/// The way in which an operator treats narrow inputs.
enum class NarrowUse : uint8_t {
  kRefused,
  kMoved,     ///< its results have the elements of its first input
  kConverted  ///< it looks at them itself
};
NarrowUse NarrowUseOf(std::string_view domain, std::string_view op);

}  // namespace hammock::onnx
