#include "hammock/ir/dtype.h"

#include <array>
#include <limits>
#include <ostream>

#include "base/throw.h"

namespace hammock {
namespace {

using Kind = DTypeKind;
constexpr double kMaxI64 = 0x1p63;  // the nearest double of 2^63 - 1
constexpr double kMaxF32 = std::numeric_limits<float>::max();
constexpr double kMaxF64 = std::numeric_limits<double>::max();

}  // namespace

// clang-format off
constinit const DTypeInfo kDTypeTable[kNumDTypes] = {
    {DType::kBool,   "bool",   "bool",            8,  Kind::kBool,     true,  0, 1, 0},
    {DType::kU8,     "u8",     "uint8",           8,  Kind::kUnsigned, true,  0, 0xff, 0},
    {DType::kU16,    "u16",    "uint16",          16, Kind::kUnsigned, true,  0, 0xffff, 0},
    {DType::kU32,    "u32",    "uint32",          32, Kind::kUnsigned, true,  0, 0xffffffff, 0},
    {DType::kU64,    "u64",    "uint64",          64, Kind::kUnsigned, true,  0, 0x1p64, 0},
    {DType::kI8,     "i8",     "int8",            8,  Kind::kSigned,   true,  -0x1p7, 0x1p7 - 1, 0},
    {DType::kI16,    "i16",    "int16",           16, Kind::kSigned,   true,  -0x1p15, 0x1p15 - 1, 0},
    {DType::kI32,    "i32",    "int32",           32, Kind::kSigned,   true,  -0x1p31, 0x1p31 - 1, 0},
    {DType::kI64,    "i64",    "int64",           64, Kind::kSigned,   true,  -kMaxI64, kMaxI64, 0},
    {DType::kF16,    "f16",    "float16",         16, Kind::kFloat,    true,  -65504, 65504, 0x1p-10},
    {DType::kBF16,   "bf16",   "bfloat16",        16, Kind::kFloat,    true,  -0x1.fep127, 0x1.fep127, 0x1p-7},
    {DType::kF32,    "f32",    "float32",         32, Kind::kFloat,    true,  -kMaxF32, kMaxF32, 0x1p-23},
    {DType::kF64,    "f64",    "float64",         64, Kind::kFloat,    true,  -kMaxF64, kMaxF64, 0x1p-52},
    {DType::kC64,    "c64",    "complex64",       64, Kind::kComplex,  true,  -kMaxF32, kMaxF32, 0x1p-23},
    {DType::kC128,   "c128",   "complex128",      128, Kind::kComplex, true,  -kMaxF64, kMaxF64, 0x1p-52},
    {DType::kF8E4M3, "f8e4m3", "float8_e4m3fn",   8,  Kind::kFloat,    false, -448, 448, 0x1p-3},
    {DType::kF8E5M2, "f8e5m2", "float8_e5m2",     8,  Kind::kFloat,    false, -57344, 57344, 0x1p-2},
    {DType::kI4,     "i4",     "int4",            4,  Kind::kSigned,   false, -8, 7, 0},
    {DType::kU4,     "u4",     "uint4",           4,  Kind::kUnsigned, false, 0, 15, 0},
    {DType::kI2,     "i2",     "int2",            2,  Kind::kSigned,   false, -2, 1, 0},
    {DType::kU2,     "u2",     "uint2",           2,  Kind::kUnsigned, false, 0, 3, 0},
};
// clang-format on

namespace {

struct Alias {
  std::string_view name;
  DType dtype;
};
constexpr Alias kAliases[] = {
    {"byte", DType::kU8},      {"char", DType::kI8},    {"short", DType::kI16},
    {"int", DType::kI32},      {"long", DType::kI64},   {"half", DType::kF16},
    {"float", DType::kF32},    {"double", DType::kF64}, {"cfloat", DType::kC64},
    {"cdouble", DType::kC128},
};

constexpr int kComputed = static_cast<int>(DType::kC128) + 1;
constexpr uint8_t kNoPromotion = 0xff;

constexpr bool Signed(DType t) { return t >= DType::kI8 && t <= DType::kI64; }
constexpr bool Floating(DType t) { return t >= DType::kF16; }
// The lattice: bool < unsigned, bool < signed, u8 < i16, u16 < i32, u32 < i64 (PyTorch mixes wide
// unsigned types with no signed one, the array API standard does), every integer < every float,
// {f16, bf16} < f32 < f64, every float < c64 < c128 but for f64, which is below c128 alone. `a`
// precedes `b` in the enumeration.
constexpr uint8_t PromoteOrdered(DType a, DType b) {
  auto id = [](DType t) { return static_cast<uint8_t>(t); };
  if (a == b || a == DType::kBool) return id(b);
  if (a == DType::kF16 && b == DType::kBF16) return id(DType::kF32);
  if (a == DType::kF64 && b == DType::kC64) return id(DType::kC128);
  if (Floating(b)) return id(b);
  if (!Signed(a) && Signed(b)) {  // the next wider signed type, or the wider of the two
    if (a == DType::kU64) return kNoPromotion;
    const DType wider = a == DType::kU8    ? DType::kI16
                        : a == DType::kU16 ? DType::kI32
                                           : DType::kI64;
    return id(wider < b ? b : wider);
  }
  return id(b);  // the wider one of a kind
}

constexpr auto kPromotions = [] {
  std::array<std::array<uint8_t, kComputed>, kComputed> table{};
  for (int a = 0; a < kComputed; ++a) {
    for (int b = 0; b < kComputed; ++b) {
      table[a][b] = a <= b ? PromoteOrdered(static_cast<DType>(a), static_cast<DType>(b))
                           : PromoteOrdered(static_cast<DType>(b), static_cast<DType>(a));
    }
  }
  return table;
}();

}  // namespace

std::optional<DType> DTypeFromName(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (const DTypeInfo& info : kDTypeTable) {
    if (name == info.name || name == info.torch_name) return info.dtype;
  }
  for (const Alias& alias : kAliases) {
    if (name == alias.name) return alias.dtype;
  }
  return std::nullopt;
}

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  auto x = static_cast<size_t>(a);
  auto y = static_cast<size_t>(b);
  uint8_t promoted = x < kComputed && y < kComputed ? kPromotions[x][y] : kNoPromotion;
  if (promoted == kNoPromotion) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch,
                     "promote_types: {} and {} have no common type; cast one of them", NameOf(a),
                     NameOf(b));
  }
  return static_cast<DType>(promoted);
}

std::ostream& operator<<(std::ostream& os, DType dtype) { return os << NameOf(dtype); }

}  // namespace hammock
